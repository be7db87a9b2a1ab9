"""A waterfall as elements: each step is one line with its bar, which unfolds to what it got and gave."""

from collections.abc import Iterator, Sequence

from evalspec.reports.markup.elements import Element, Nodes, chip, el, folded, group, name
from evalspec.reports.markup.text_budget import TextBudget
from evalspec.reports.waterfall import ShownStep

_WIDTH, _HEIGHT = 200, 8
_NARROWEST = 1.0
_DEEPEST = 6
_LONGEST = 4000


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
            class_=f"data depth{min(step.depth, _DEEPEST)}",
        ),
        _draw_bar(step),
        el("small", " · ".join([step.took, *map(room.clip, step.facts)]), class_="muted"),
    ]
    title = el("span", said, class_="step")
    has_more = step.error or step.texts
    return folded(title, _draw_details(step, room), is_open=bool(step.error)) if has_more else title


def _draw_bar(step: ShownStep) -> Element:
    width = max(_NARROWEST, step.width * _WIDTH)
    place = min(step.start * _WIDTH, _WIDTH - _NARROWEST)
    bar = el("rect", class_="bar", x=round(place, 2), y=0, width=round(width, 2), height=_HEIGHT, rx=1)
    return el("svg", bar, viewBox=f"0 0 {_WIDTH} {_HEIGHT}", preserveAspectRatio="none", aria_hidden="true")


def _draw_details(step: ShownStep, room: TextBudget) -> Iterator[Nodes]:
    if step.error:
        yield room.prose(step.error, "error", _LONGEST)
    for title, text in step.texts:
        heading = el("p", room.clip(title), class_="subheading")
        yield el("div", heading, room.prose(text, "data", _LONGEST), class_="block")
