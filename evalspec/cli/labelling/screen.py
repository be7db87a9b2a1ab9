"""What a labelling session shows: a reply with question, contexts and expected answer, or a score with its reason."""

from collections.abc import Mapping
from typing import Any

from evalspec.base.foreign_text import inert, visible
from evalspec.base.json_text import render_line
from evalspec.cli.screen import (
    Screen,
    build_body,
    build_excerpt,
    build_heading,
    build_marked,
    build_title,
    clean,
    render_keys,
    render_parts,
)
from evalspec.curation.gold.passages import find_different, find_shared
from evalspec.curation.labels.binding import Case
from evalspec.model import Score

NOTE, WHOLE = "note", "whole"
_SHARED = {"n": NOTE, "s": "skip", "u": "undo", "w": WHOLE, "?": "help", "q": "quit"}
KEYS_OF_REPLIES = {"g": "good", "b": "bad", **_SHARED}
KEYS_OF_SCORES = {"a": "agree", "d": "disagree", **_SHARED}

_HELP_OF_REPLIES = """\
A reply is good if you would send it to the person who asked: it answers the question, and what it says is right. \
Otherwise it is bad. Skip what you cannot judge."""
_HELP_OF_SCORES = """\
Agree if you would have given this score, or one that means the same. Otherwise disagree; then write the score that \
you would have given, if you can say it. Judge only what the metric measures, not whether you like the reply. Skip \
what you cannot judge."""
_HELP = """\
n writes a note for your next verdict on this reply. In the answer, words that the expected answer does not have are \
marked, and the other way around; in contexts, words of the answer.

Undo takes your last label back. Nobody's labels are shown here, because labels are blind.

Each label is written to .evalspec/verdicts/ at once, so you can quit at any time and continue later."""


def keys_of(case: Case) -> Mapping[str, str]:
    """Return the keys with their meanings."""
    return KEYS_OF_REPLIES if case.metric is None else KEYS_OF_SCORES


def render_case(case: Case, progress: str, screen: Screen, *, whole: bool) -> str:
    """Return a case for a person. Nothing that others said about it. `whole`: show long contexts in full."""
    contexts = case.exchange.retrieved_contexts
    head, tail = _build_head(case, progress, screen), [*_build_answers(case, screen), *_build_score(case)]
    room = None if whole else screen.find_room([*head, *tail], len(contexts or ()))
    parts = head
    if contexts is None:
        parts += [build_heading("Contexts"), "  (none are known)", ""]
    for number, context in enumerate(contexts or (), 1):
        text = clean(context)
        marked = build_marked(text, find_shared(text, [case.exchange.response]), screen)
        parts += [build_heading("Context", _name_context(case, number)), *build_excerpt(marked, room, screen, "w"), ""]
    return render_parts([*parts, *tail, render_keys(keys_of(case))], screen)


def explain_keys(case: Case) -> str:
    """Return what the keys mean."""
    return f"{_HELP_OF_REPLIES if case.metric is None else _HELP_OF_SCORES}\n\n{_HELP}"


def _build_head(case: Case, progress: str, screen: Screen) -> list[Any]:
    attempt = f" attempt {case.attempt}" if case.attempt > 1 else ""
    parts = build_title(f"{case.dataset}: {case.sample}{attempt}", progress, screen)
    if isinstance(case.exchange.sample.user_input, str):
        return [*parts, build_heading("Question"), *build_body(case.exchange.sample.user_input), ""]
    parts.append(build_heading("Conversation"))
    for turn in case.exchange.sample.user_input:
        parts += build_body(f"{turn.role}: {turn.content}")
    return [*parts, ""]


def _build_answers(case: Case, screen: Screen) -> list[Any]:
    """Return answer and expected answer, with the words marked that the other one lacks."""
    response, expected = clean(case.exchange.response), [clean(one) for one in case.exchange.sample.references]
    answer = build_marked(response, find_different(response, expected), screen) if expected else response
    parts = [build_heading("Answer"), *(_indent(answer, screen) if response.strip() else ["  (empty)"]), ""]
    for number, one in enumerate(expected):
        marked = build_marked(one, find_different(one, [response]), screen)
        parts += [build_heading("Expected" if not number else "Or"), *_indent(marked, screen), ""]
    return parts


def _indent(text: Any, screen: Screen) -> list[Any]:
    from rich.text import Text

    return list(build_excerpt(Text(text) if isinstance(text, str) else text, None, screen, ""))


def _build_score(case: Case) -> list[Any]:
    if case.metric is None or case.score is None or case.score.value is None:
        return []
    judge = f"by {inert(case.identity['judge'].partition(' #')[0])}" if "judge" in case.identity else ""
    parts: list[Any] = [build_heading(f"Score: {inert(case.metric.name)}", judge), f"  {_say_value(case.score)}"]
    if case.score.reason:
        parts += build_body(case.score.reason)
    return [*parts, *_build_evidence(case.score.evidence_or_none), ""]


def _say_value(score: Score) -> str:
    said = f"{score.value:.4g}"
    return f"{said}, the mean of {', '.join(f'{one:.4g}' for one in score.repeats)}" if len(score.repeats) > 1 else said


def _build_evidence(evidence: Any) -> list[Any]:
    """Return the basis of a score: of lists of objects a line for each, all else as JSON."""
    if evidence is None:
        return []
    parts: list[Any] = [build_heading("Evidence")]
    groups = evidence.items() if isinstance(evidence, dict) else [("", evidence)]
    for name, value in groups:
        rows = value if isinstance(value, list) else [value]
        parts += [f"  {inert(str(name))}"] if name else []
        parts += [f"  {number}. {_say_evidence(row)}" for number, row in enumerate(rows, 1)]
    return parts


def _say_evidence(row: Any) -> str:
    if isinstance(row, dict):
        return "; ".join(f"{inert(str(key))}: {_say_evidence(value)}" for key, value in row.items())
    return inert(row) if isinstance(row, str) else visible(render_line(row))


def _name_context(case: Case, number: int) -> str:
    ids = case.exchange.ranking or ()
    return f"{number}  {inert(ids[number - 1])}" if number <= len(ids) else f"{number}"
