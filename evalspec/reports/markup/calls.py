"""Calls of tools, and steps of traces, as elements: each is one line that unfolds to what it got and gave."""

from collections.abc import Iterator, Sequence

from evalspec.reports.markup.elements import Element, Nodes, chip, el, folded, group, name
from evalspec.reports.markup.text_budget import TextBudget
from evalspec.reports.markup.views import data_cell, frame_table, head_cell, row_head
from evalspec.reports.transcript import ArgumentDifference, ShownCall
from evalspec.reports.waterfall import ShownStep

_LONGEST = 4000
_WIDTH, _HEIGHT = 200, 8
_NARROWEST = 1.0
_DEPTHS = ("data", *(f"data {name}" for name in ("depth1", "depth2", "depth3", "depth4", "depth5", "depth6")))
_LONGEST_DIFFERENCE = 300


def draw_calls(calls: Sequence[ShownCall], room: TextBudget) -> Element:
    """Return calls in their order. Only those that differ from the expected ones are unfolded."""
    items, more = room.items(calls, lambda call: el("li", _draw_call(call, room)))
    return group(el("ol", items, class_="calls", aria_label="Tool calls"), more)


def _draw_call(call: ShownCall, room: TextBudget) -> Element:
    said: list[Nodes] = [
        el("span", name(f"{room.clip(call.name)}({call.brief})"), class_="data"),
        call.outcome and chip(*call.outcome),
        chip("fail", "!", "error") if call.error else None,
        el("small", f"step {call.step}", class_="muted") if call.step else None,
    ]
    return folded(el("span", said, class_="score"), _draw_details(call, room), is_open=bool(call.differences))


def _draw_details(call: ShownCall, room: TextBudget) -> Iterator[Nodes]:
    if call.differences:
        head = [head_cell(title) for title in ("argument", "expected", "made")]
        rows = [_draw_difference(one, room) for one in call.differences]
        yield frame_table(f"Arguments of {room.clip(call.name)} that differ", head, rows, "tight")
    if call.error:
        yield room.prose(call.error, "error", _LONGEST)
    texts = {"Arguments": call.arguments, "Result": call.result}
    for title, text in texts.items():
        if text is not None:
            yield el("div", el("p", title, class_="subheading"), room.prose(text, "data", _LONGEST), class_="block")


def _draw_difference(one: ArgumentDifference, room: TextBudget) -> Element:
    sides = [
        data_cell("none" if text is None else room.prose(text, "data", _LONGEST_DIFFERENCE), title)
        for title, text in (("expected", one.expected), ("made", one.actual))
    ]
    return el("tr", row_head(name(room.clip(one.place))), sides, role="row")


def draw_waterfall(steps: Sequence[ShownStep], room: TextBudget) -> Element:
    """Return steps in their order. Only failed ones are unfolded."""
    items, more = room.items(steps, lambda step: el("li", _draw_step(step, room)))
    return group(el("ol", items, class_="waterfall", aria_label="Steps of the trace"), more)


def _draw_step(step: ShownStep, room: TextBudget) -> Nodes:
    said: list[Nodes] = [
        el(
            "span",
            name(room.clip(step.name)),
            chip("fail", "!", "error") if step.error else None,
            class_=_DEPTHS[min(step.depth, len(_DEPTHS) - 1)],
        ),
        _draw_bar(step),
        el("small", " · ".join([step.took, *map(room.clip, step.facts)]), class_="muted"),
    ]
    title = el("span", said, class_="step")
    has_more = step.error or step.texts
    return folded(title, _draw_texts(step, room), is_open=bool(step.error)) if has_more else title


def _draw_bar(step: ShownStep) -> Element:
    width = max(_NARROWEST, step.width * _WIDTH)
    place = min(step.start * _WIDTH, _WIDTH - _NARROWEST)
    bar = el("rect", class_="bar", x=round(place, 2), y=0, width=round(width, 2), height=_HEIGHT, rx=1)
    return el("svg", bar, viewBox=f"0 0 {_WIDTH} {_HEIGHT}", preserveAspectRatio="none", aria_hidden="true")


def _draw_texts(step: ShownStep, room: TextBudget) -> Iterator[Nodes]:
    if step.error:
        yield room.prose(step.error, "error", _LONGEST)
    for title, text in step.texts:
        heading = el("p", room.clip(title), class_="subheading")
        yield el("div", heading, room.prose(text, "data", _LONGEST), class_="block")
