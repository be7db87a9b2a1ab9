"""The evidence of a score: the judge's verdicts on single statements, and other data of the metric."""

from collections.abc import Mapping, Sequence
from typing import Any

from msgspec import Struct

from evalspec.inputs.manifest.metric_spec import split_column
from evalspec.reports.rows import render_data

_VERDICTS = {
    "faithfulness": ("supported", "not supported"),
    "hallucination": ("supported", "not supported"),
    "context_recall": ("in the contexts", "not in the contexts"),
    "context_precision": ("useful", "not useful"),
    "noise_sensitivity": ("right", "wrong"),
    "factual_correctness": ("found on the other side", "not found on the other side"),
    **dict.fromkeys(("json_fields", "checks", "checks_all"), ("right", "wrong")),
}
"""What the verdicts 1 and 0 mean, by metric."""
_YES_NO = ("yes", "no")
_WORDS = {"entailed": ("pass", "✓"), "contradicted": ("fail", "✗"), "missing": ("warn", "–")}
"""Verdicts that are words."""
_TITLES = {
    "statements": "",
    "differences": "Where the world differs",
    "claims": "Claims of the expected answer",
    "contexts": "Contexts, in order",
    "questions": "Questions that the response answers",
    "TP": "Right",
    "checks": "Checks of the sample",
    "fields": "Fields of the expected JSON",
    "FP": "Wrong, or not in the reference",
    "FN": "Missing in the answer",
    "response": "Claims of the answer",
    "reference": "Claims of the reference",
}
_IN_TURNS = {frozenset({"turns"}): {"turn"}, frozenset({"expected", "extra"}): {"name", "made", "share"}}
"""Keys of evidence that turns show, with those of each of its items."""
_TEXT_KEYS = ("statement", "question", "claim", "text")
_VERDICT_KEYS = ("verdict", "attributed")


class ShownVerdict(Struct, frozen=True):
    """A verdict on one statement. `tone`, `mark`, `word`: empty if there is no verdict. `others`: further data."""

    text: str
    tone: str = ""
    mark: str = ""
    word: str = ""
    reason: str = ""
    others: tuple[str, ...] = ()


class VerdictList(Struct, frozen=True):
    """Verdicts under a title, which may be empty."""

    title: str
    verdicts: tuple[ShownVerdict, ...]


class ShownEvidence(Struct, frozen=True):
    """The evidence of a score. `facts`: names with values."""

    lists: tuple[VerdictList, ...] = ()
    facts: tuple[tuple[str, str], ...] = ()


def describe_evidence(metric: str, evidence: Any) -> ShownEvidence | None:
    """Return the evidence of a score of a metric. None: there is none, or the turns of the attempt show it."""
    if evidence is None or _is_in_turns(evidence):
        return None
    parts = evidence if isinstance(evidence, Mapping) else {"": evidence}
    told = {key: _list_lines(part) if key == "differences" else part for key, part in parts.items()}
    lists = [_list_verdicts(metric, str(key), part) for key, part in told.items() if _has_verdicts(part)]
    facts = [(str(key), render_data(part)) for key, part in told.items() if not _has_verdicts(part)]
    return ShownEvidence(tuple(lists), tuple(facts))


def _is_in_turns(evidence: Any) -> bool:
    """Return whether evidence has the scores of turns, or pairs of calls, which are shown where they were made."""
    if not isinstance(evidence, Mapping) or frozenset(evidence) not in _IN_TURNS:
        return False
    items, keys = evidence.get("turns", evidence.get("expected")), _IN_TURNS[frozenset(evidence)]
    return isinstance(items, list | tuple) and all(isinstance(one, Mapping) and keys <= one.keys() for one in items)


def _list_lines(part: Any) -> Any:
    """Return the differences of a world as lines of their own."""
    is_lines = isinstance(part, list | tuple) and all(isinstance(line, str) for line in part)
    return [{"text": line} for line in part] if is_lines else part


def _has_verdicts(part: Any) -> bool:
    return isinstance(part, list | tuple) and bool(part) and all(isinstance(item, Mapping) for item in part)


def _list_verdicts(metric: str, key: str, part: Sequence[Mapping[str, Any]]) -> VerdictList:
    shown = tuple(_describe_verdict(metric, item) for item in part)
    return VerdictList(_TITLES.get(key, key), shown)


def _describe_verdict(metric: str, item: Mapping[str, Any]) -> ShownVerdict:
    text_key = next((key for key in _TEXT_KEYS if isinstance(item.get(key), str)), None)
    verdict_key = next((key for key in _VERDICT_KEYS if key in item), None)
    others = tuple(
        f"{key}: {render_data(value)}" for key, value in item.items() if key not in (text_key, verdict_key, "reason")
    )
    text = "" if text_key is None else item[text_key]
    tone, mark, word = ("", "", "") if verdict_key is None else _describe_outcome(metric, item[verdict_key])
    reason = item.get("reason")
    return ShownVerdict(text, tone, mark, word, "" if reason is None else render_data(reason), others)


def _describe_outcome(metric: str, verdict: Any) -> tuple[str, str, str]:
    if isinstance(verdict, str) and verdict in _WORDS:
        return (*_WORDS[verdict], verdict)
    yes, no = _VERDICTS.get(split_column(metric).base, _YES_NO)
    return ("pass", "✓", yes) if verdict else ("fail", "✗", no)
