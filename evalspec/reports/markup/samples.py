"""A sample with all its attempts, scores and evidence as elements, and its row in a table."""

from collections.abc import Callable, Iterable, Iterator, Sequence

from evalspec.base.plural import counted
from evalspec.reports.markup.calls import draw_calls, draw_waterfall
from evalspec.reports.markup.elements import Element, Nodes, chip, definitions, el, folded, name
from evalspec.reports.markup.evidence import ShownEvidence, ShownVerdict, VerdictList
from evalspec.reports.markup.sample_content import (
    Chip,
    DocumentList,
    Marked,
    MarkedTurn,
    ShownAttempt,
    ShownDocument,
    ShownSample,
    ShownScore,
)
from evalspec.reports.markup.text_budget import TextBudget
from evalspec.reports.markup.views import data_cell, frame_table, head_cell, row_head

_NOT_KEPT = "not kept (--no-content)"
_PASSAGE = 4000
_LONGEST_REASON = 4000

Forms = Callable[[int, str | None, int], Nodes]
"""Returns the form to label an attempt, or one of its scores: by number of the attempt, metric, number of the score."""


def draw_sample(sample: ShownSample, room: TextBudget, forms: Forms | None = None) -> Iterator[Nodes]:
    """Yield question, attempts, reference passages and metadata of a sample."""
    several = len(sample.attempts) > 1
    if sample.error and several:
        yield room.prose(sample.error, "error", _PASSAGE)
    if sample.asked or not any(one.turns for one in sample.attempts):
        yield _block("Question", draw_question(sample, room))
    if several:
        yield _block(f"{len(sample.attempts)} attempts", _draw_attempts(sample, room))
    for one in sample.attempts:
        drawn = _draw_attempt(sample, one, room, forms)
        title: list[Nodes] = ["Attempt ", str(one.number), " ", chip(*one.state)]
        yield folded(title, drawn, is_open=one.number == 1, kind="attempt") if several else drawn
    if passages := sample.reference_contexts:
        items, more = room.items(passages, lambda text: el("li", room.prose(text, "passage", _PASSAGE)))
        yield folded(f"Reference passages ({len(passages):,})", el("ol", items, class_="contexts"), more)
    if sample.metadata:
        yield _block("Metadata", draw_facts(sample.metadata, room))


def draw_place(sample: ShownSample, file: str | None, room: TextBudget) -> Element:
    """Return what is beside the title of a sample: state, dataset, place in its file, latency, tags."""
    place = file and f"{file}:{sample.line}" if sample.line is not None else file
    line = f"line {sample.line}" if sample.line is not None and not file else None
    facts = [chip(*sample.state), *(name(room.clip(one)) for one in (sample.dataset, place or line) if one)]
    return el(
        "p", facts, el("span", sample.latency), [*(name(room.clip(tag), "tag") for tag in sample.tags)], class_="about"
    )


def _block(title: str, *content: Nodes) -> Element:
    return el("section", el("h2", title), content, class_="block")


def draw_facts(facts: Iterable[tuple[str, str]], room: TextBudget) -> Element:
    """Return data with its names."""
    return definitions((room.clip(key), room.prose(value, "data", _PASSAGE)) for key, value in facts)


def draw_question(sample: ShownSample, room: TextBudget) -> Nodes:
    """Return the question, or the messages of a conversation."""
    if not sample.asked:
        return _muted(_NOT_KEPT)
    if len(sample.asked) == 1 and not sample.asked[0][0]:
        return room.prose(sample.asked[0][1], has_links=not sample.has_words)
    messages = [
        el(
            "li",
            el("span", name(room.clip(role)), class_="role"),
            room.prose(text),
            class_="user" if role == "user" else "",
        )
        for role, text in sample.asked
    ]
    return el("ol", messages, class_="conversation")


def _draw_attempts(sample: ShownSample, room: TextBudget) -> Element:
    """Return the scores of all attempts beside each other, and those of all together."""
    metrics = [score.metric for score in sample.scores]
    head: list[Nodes] = [
        head_cell("attempt"),
        head_cell("status"),
        [_head_metric(one, room) for one in metrics],
        head_cell("latency", "number"),
    ]
    rows = [
        _draw_attempt_row(str(one.number), one.state, one.scores, sample, one.latency, room) for one in sample.attempts
    ]
    rows.append(_draw_attempt_row("together", sample.state, sample.scores, sample, sample.latency, room))
    return frame_table("Attempts", head, rows, "tight")


def _head_metric(metric: str, room: TextBudget) -> Element:
    return head_cell(name(room.clip(metric)), "number")


def _draw_attempt_row(
    title: str, state: Chip, scores: Sequence[ShownScore], sample: ShownSample, latency: str, room: TextBudget
) -> Element:
    by_metric = {score.metric: score for score in scores}
    cells = [data_cell(_draw_value(by_metric[one.metric]), room.clip(one.metric), "number") for one in sample.scores]
    return el(
        "tr", row_head(title), data_cell(chip(*state)), cells, data_cell(latency, "latency", "number"), role="row"
    )


def _draw_value(score: ShownScore) -> Iterator[Nodes]:
    """Return a value in a table, with the reason why there is none."""
    yield el("span", score.shown, class_="fail") if score.is_beyond else score.shown
    if score.chip and not score.is_beyond:
        yield el("small", score.chip[2])


def _draw_attempt(sample: ShownSample, one: ShownAttempt, room: TextBudget, forms: Forms | None) -> Iterator[Nodes]:
    several = len(sample.attempts) > 1
    if one.error:
        yield room.prose(one.error, "error", _PASSAGE)
    of = f" of attempt {one.number}" if several else ""
    if one.turns:
        yield _block(f"Conversation{of}", draw_turns(one, room))
    else:
        yield draw_tool_calls(one, room)
        answer = _block(f"Answer{of}", _draw_answer(sample, one, room))
        yield el("div", answer, draw_references(sample, one.references, room), class_="beside")
    yield forms and forms(one.number, None, 0)
    yield _block("Scores", _draw_scores(one, room, forms))
    if one.steps:
        yield _block(f"Trace{of}", draw_waterfall(one.steps, room))
    for found in one.documents:
        yield draw_documents(found, room)
    if one.missed:
        items, more = room.items(one.missed, lambda missed: _draw_missed(missed, room))
        yield _block("Relevant, not retrieved", el("ul", items, class_="missed"), more)
    yield definitions((room.clip(key), name(room.clip(value))) for key, value in one.facts)


def draw_tool_calls(one: ShownAttempt, room: TextBudget) -> Element | None:
    """Return the calls of an attempt that is no conversation; None if the reply shows none."""
    return _block("Tool calls", draw_calls(one.calls, room)) if one.calls else None


def draw_turns(one: ShownAttempt, room: TextBudget, *, has_scores: bool = True) -> Element:
    """Return a conversation. `has_scores`: whether the scores of its turns are shown, which could sway a person."""
    turns = enumerate(one.turns, 1)
    return el("ol", [el("li", _draw_turn(number, turn, room, has_scores)) for number, turn in turns], class_="turns")


def _draw_turn(number: int, one: MarkedTurn, room: TextBudget, has_scores: bool) -> Iterator[Nodes]:
    turn = one.turn
    facts = [f"{fact}: {value}" for fact, value in turn.facts]
    yield el("h3", f"Turn {number}", el("small", " · ".join(map(room.clip, facts)), class_="muted"))
    yield el("div", el("p", "user", class_="role"), room.prose(turn.user or ""), class_="said")
    yield draw_calls(turn.calls, room) if turn.calls else None
    answer = _muted("none: the reply ends in tool calls") if one.answer is None else room.pieces(one.answer)
    sides = [("Answer", answer)]
    if one.references:
        sides.append(("Expected", el("div", [room.pieces(text) for text in one.references])))
    drawn = [el("section", el("h4", title, class_="subheading"), content, class_="block") for title, content in sides]
    yield el("div", drawn, class_="beside")
    if has_scores and one.scores:
        values = " · ".join(room.clip(f"{score.metric} {score.shown}") for score in one.scores)
        scores = el("ul", [el("li", draw_score(score, room)) for score in one.scores], class_="scores")
        yield folded(name(values), scores, kind="quiet")


def _draw_answer(sample: ShownSample, one: ShownAttempt, room: TextBudget) -> Nodes:
    if one.answer is not None:
        return room.pieces(one.answer)
    if one.error:
        return _muted("no usable reply")
    if one.is_retrieval:
        return _muted("none: a retriever returns documents")
    return _muted("not kept" if sample.has_texts else _NOT_KEPT)


def draw_references(sample: ShownSample, references: Sequence[Marked], room: TextBudget) -> Element:
    """Return the expected answers."""
    none = _muted("none given" if sample.has_texts else _NOT_KEPT)
    title = "Expected answers" if len(references) > 1 else "Expected"
    return _block(title, [room.pieces(one) for one in references] or none)


def _draw_scores(one: ShownAttempt, room: TextBudget, forms: Forms | None) -> Iterator[Nodes]:
    """Yield the scores. Those within their limit come last, and are folded if there are others."""
    drawn = [
        (score, el("li", draw_score(score, room), forms and forms(one.number, score.metric, number)))
        for number, score in enumerate(one.scores, 1)
    ]
    drawn.sort(key=lambda pair: (not pair[0].is_beyond, pair[0].chip is None or pair[0].chip[0] != "warn"))
    told = [item for score, item in drawn if not score.is_met]
    met = [item for score, item in drawn if score.is_met]
    yield el("ul", told or met, class_="scores")
    if told and met:
        yield folded(f"{counted(len(met), 'score')} within the limit", el("ul", met, class_="scores"))


def draw_score(score: ShownScore, room: TextBudget) -> Iterator[Nodes]:
    """Yield a score with its reason and evidence."""
    yield el(
        "div",
        el("strong", name(room.clip(score.metric))),
        el("span", score.shown, class_="number fail" if score.is_beyond else "number"),
        score.chip and chip(*score.chip),
        el("span", " · ".join(score.notes), class_="muted") if score.notes else None,
        class_="score",
    )
    if score.reason:
        yield room.prose(score.reason, "reason", _LONGEST_REASON)
    if score.evidence:
        yield draw_evidence(score.evidence, room)


def draw_evidence(evidence: ShownEvidence, room: TextBudget) -> Element:
    """Return the judge's verdicts on single statements, and other data of the metric."""
    lists = [_draw_verdicts(part, room) for part in evidence.lists]
    facts = draw_facts(evidence.facts, room) if evidence.facts else None
    return folded("Evidence", lists, facts, is_open=bool(lists))


def _draw_verdicts(part: VerdictList, room: TextBudget) -> Nodes:
    items, more = room.items(part.verdicts, lambda one: _draw_verdict(one, room))
    return [part.title and el("h3", name(room.clip(part.title))), el("ol", items, class_="verdicts"), more]


def _draw_verdict(one: ShownVerdict, room: TextBudget) -> Element:
    remarks = [room.prose(text, "muted") for text in (one.reason, *one.others) if text]
    return el("li", one.word and chip(one.tone, one.mark, one.word), one.text and room.prose(one.text), remarks)


def draw_documents(found: DocumentList, room: TextBudget) -> Element:
    """Return retrieved documents, best first, with what the ground truth says of them."""
    items, more = room.items(found.documents, lambda one: _draw_document(one, room))
    return _block(found.title, el("ol", items, class_="contexts") if items else _muted("none"), more)


def _draw_document(one: ShownDocument, room: TextBudget) -> Element:
    said = [
        one.id is not None and name(room.clip(one.id), "identifier"),
        one.chip and chip(*one.chip),
        one.is_reference and chip("pass", "✓", "a reference passage"),
    ]
    text = None if one.text is None else room.prose(one.text, "passage", _PASSAGE)
    return el("li", el("div", said, class_="score"), text)


def _draw_missed(one: ShownDocument, room: TextBudget) -> Element:
    grade = one.chip and el("span", " ", one.chip[2], class_="muted")
    return el("li", name(room.clip(one.id or ""), "identifier"), grade)


def _muted(text: str) -> Element:
    return el("p", text, class_="muted")


def draw_columns(metrics: Sequence[str], room: TextBudget) -> Iterator[Nodes]:
    """Yield the titles of a table of samples."""
    yield head_cell("sample", "sample")
    yield head_cell("status", "state")
    for metric in metrics:
        yield _head_metric(metric, room)
    yield head_cell("latency", "number")
    yield head_cell("tags", "tags")


def draw_cells(
    link: Nodes,
    state: Nodes,
    scores: Sequence[ShownScore],
    latency: str,
    tags: Sequence[str],
    room: TextBudget,
    *,
    is_short: bool = False,
) -> Element:
    """Return the row of a sample in a table. `link`: to the sample, with its question.

    `is_short`: whether a phone leaves out the latency, and scores that are neither failed nor beyond a limit.
    """
    calm = "number calm" if is_short else "number"

    def kind_of(score: ShownScore) -> str:
        return "number" if score.chip and score.chip[0] in ("fail", "warn") else calm

    return el(
        "tr",
        row_head(link, "sample"),
        data_cell(state, kind="state"),
        [data_cell(_draw_value(one) if one.is_known else None, room.clip(one.metric), kind_of(one)) for one in scores],
        data_cell(latency, "latency", calm),
        data_cell([name(room.clip(tag), "tag") for tag in tags], kind="tags"),
        role="row",
        data_row=True,
    )
