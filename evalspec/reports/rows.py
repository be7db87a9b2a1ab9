"""The rows of a run for tables and JSON Lines: every attempt with its texts and scores."""

import json
from collections.abc import Iterator, Mapping
from typing import Any

from msgspec import Struct

from evalspec.base.foreign_text import cut
from evalspec.model import STAGES, Attempt, DatasetResult, Exchange, Run, SampleResult, Score, StoredExchange
from evalspec.reports.base import StoredExchanges

COLUMNS: Mapping[str, str] = {
    "run_id": "text",
    "has_texts": "truth",
    "dataset": "text",
    "sample_id": "text",
    "attempt": "whole",
    "file": "text",
    "line": "whole",
    "tags": "texts",
    "metadata": "text",
    "sample_status": "text",
    "latency_ms": "number",
    "error": "text",
    "passed": "truth",
    "metric": "text",
    "score_status": "text",
    "value": "number",
    "reason": "text",
    "embed_ms": "number",
    "retrieve_ms": "number",
    "rerank_ms": "number",
    "score_cause": "text",
}
"""The columns of a table of scores with their types. New columns are only added at the end."""

_ID_SHOWN = 80
_SHORT = 80
_SHARED = [name for name in Attempt.__struct_fields__ if name in SampleResult.__struct_fields__]
"""What a sample with one attempt has of it."""


class AttemptRow(Struct, frozen=True):
    """One attempt at one sample. `number`: from 1. `exchange`: None if its texts are not stored."""

    dataset: DatasetResult
    sample: SampleResult
    number: int
    attempt: Attempt
    exchange: Exchange | None
    scores: Mapping[str, Score]


def read_attempts(run: Run, exchanges: StoredExchanges) -> Iterator[AttemptRow]:
    """Yield every attempt in the order of the run, with its texts if they are stored.

    Raises:
        ValueError: The texts are not in the order of the samples, so they could be assigned to the wrong samples.
    """
    told = iter(exchanges()) if run.has_texts else iter(())
    following = next(told, None)
    for dataset in run.datasets:
        for sample in dataset.samples:
            for number, attempt in enumerate(sample.attempts or (_only_attempt(sample),), 1):
                if following is None or _key(following) != (dataset.name, sample.id, number):
                    yield AttemptRow(dataset, sample, number, attempt, None, attempt.scores)
                    continue
                scores = {name: _in_full(score, following.scores.get(name)) for name, score in attempt.scores.items()}
                yield AttemptRow(dataset, sample, number, attempt, following.exchange, scores)
                following = next(told, None)
    if following is not None:
        name, sample_id, number = _key(following)
        raise ValueError(f"no sample matches the texts of {name}: {cut(sample_id, _ID_SHOWN)}, attempt {number}")


def identify(run: Run, attempt_row: AttemptRow) -> dict[str, Any]:
    """Return the columns that identify an attempt, and its outcome. None: unknown."""
    sample, attempt = attempt_row.sample, attempt_row.attempt
    return {
        "run_id": run.id,
        "has_texts": run.has_texts,
        "dataset": attempt_row.dataset.name,
        "sample_id": sample.id,
        "attempt": attempt_row.number,
        "file": attempt_row.dataset.file,
        "line": sample.line,
        "tags": list(sample.tags),
        "metadata": dict(sample.metadata),
        "sample_status": str(attempt.status),
        "latency_ms": attempt.latency_ms,
        "error": attempt.error,
        "passed": attempt.passed,
    }


def score_columns(metric: str | None, score: Score | None) -> dict[str, Any]:
    """Return the columns of one score. All None for an attempt without scores."""
    return {
        "metric": metric,
        "score_status": str(score.status) if score else None,
        "value": score.value if score else None,
        "reason": score.reason if score else None,
    }


def cause_column(score: Score | None) -> dict[str, Any]:
    """Return the column with the cause of a missing value. Separate, because new columns are only added at the end."""
    return {"score_cause": score.cause if score else None}


def timing_columns(attempt_row: AttemptRow) -> dict[str, Any]:
    """Return the columns with the times of retriever stages. None: no retriever, or it does not report them."""
    return {f"{stage}_ms": attempt_row.attempt.timings_ms.get(stage) for stage in STAGES}


def score_rows(attempt_row: AttemptRow) -> Iterator[tuple[str | None, Score | None]]:
    """Yield metric and score of each row of an attempt. An attempt without scores has one row."""
    yield from attempt_row.scores.items() or ((None, None),)


def to_json(value: Any) -> str:
    """Return a value as JSON on one line.

    Raises:
        ValueError: The value contains NaN or infinity.
    """
    return json.dumps(value, ensure_ascii=False, allow_nan=False)


def render_data(value: Any) -> str:
    """Return any data as text: on one line if it is short, or nested too deeply to indent; otherwise indented."""
    if isinstance(value, str):
        return value
    line = json.dumps(value, ensure_ascii=False)
    try:
        return line if len(line) <= _SHORT else json.dumps(value, ensure_ascii=False, indent=2)
    except RecursionError:
        return line


def _only_attempt(sample: SampleResult) -> Attempt:
    passed = None if sample.pass_rate is None else sample.pass_rate == 1.0
    return Attempt(**{name: getattr(sample, name) for name in _SHARED}, passed=passed)


def _key(stored_exchange: StoredExchange) -> tuple[str, str, int]:
    return stored_exchange.dataset, stored_exchange.exchange.sample.id, stored_exchange.attempt


def _in_full(score: Score, stored: Score | None) -> Score:
    """Return the stored score, with reason and evidence, if it has the same status and value. Others are outdated."""
    same = stored is not None and (stored.status, stored.value) == (score.status, score.value)
    return stored if stored is not None and same else score
