"""The reports for other programs: CSV and JSON Lines, with a line for each attempt, or for each of its scores."""

import csv
from io import StringIO
from typing import Any

from msgspec import to_builtins
from msgspec.structs import asdict

from evalspec.base.foreign_text import visible
from evalspec.base.json_text import render_line
from evalspec.model import AgentTurn, Exchange, Run, Sample, Score
from evalspec.reports.base import Reporter, StoredExchanges
from evalspec.reports.rows import (
    COLUMNS,
    AttemptRow,
    cause_column,
    identify,
    read_attempts,
    score_columns,
    score_rows,
    timing_columns,
    to_json,
)

FORMULA = ("=", "+", "-", "@", "\t", "\r", "\n", "＝", "＋", "－", "＠")
"""Prefixes that spreadsheets treat as formulas. Full-width forms are for East Asian locales."""


def render_csv(run: Run, exchanges: StoredExchanges) -> bytes:
    """Return the table with its header. Unknown values are empty cells."""
    stream = StringIO(newline="")
    rows = csv.writer(stream)
    rows.writerow(COLUMNS)
    for attempt_row in read_attempts(run, exchanges):
        about, timings = _cells(identify(run, attempt_row)), _cells(timing_columns(attempt_row))
        for metric, score in score_rows(attempt_row):
            rows.writerow([*about, *_cells(score_columns(metric, score)), *timings, *_cells(cause_column(score))])
    return stream.getvalue().encode()


def _cells(columns: dict[str, Any]) -> list[Any]:
    return [_cell(value) for value in columns.values()]


def _cell(value: Any) -> Any:
    """Return the value of a cell.

    Numbers are unchanged. Lists and objects become JSON. Text that a spreadsheet would evaluate gets an apostrophe.
    """
    if value is None or (isinstance(value, int | float) and not isinstance(value, bool)):
        return value
    text = value if isinstance(value, str) else to_json(value)
    return visible(f"'{text}" if text.startswith(FORMULA) else text)


CSV = Reporter("csv", (".csv",), render_csv)


def render_jsonl(run: Run, exchanges: StoredExchanges) -> str:
    """Return a line for each attempt, in the order of the run. Every key is present. null: unknown, or not stored."""
    return "".join(f"{render_line(describe_attempt(run, row))}\n" for row in read_attempts(run, exchanges))


def describe_attempt(run: Run, attempt_row: AttemptRow) -> dict[str, Any]:
    """Return an attempt as a JSON object."""
    texts = _texts(attempt_row.exchange) if attempt_row.exchange else _NO_TEXTS
    scores = {metric: _score(score) for metric, score in attempt_row.scores.items()}
    attempt = attempt_row.attempt
    rest = {
        "finish_reason": attempt.finish_reason,
        "question_digest": attempt.question_digest,
        "request_digest": attempt.request_digest,
        "scores": scores,
    }
    return identify(run, attempt_row) | timing_columns(attempt_row) | texts | rest


def _texts(exchange: Exchange) -> dict[str, Any]:
    """Return the texts of an exchange. Contexts are those that the metrics used."""
    sample, reply = exchange.sample, exchange.reply
    messages = sample.user_input
    return {
        "user_input": messages if isinstance(messages, str) else [asdict(message) for message in messages],
        "references": sample.references,
        "reference_contexts": sample.reference_contexts,
        "qrels": None if sample.qrels is None else dict(sample.qrels),
        "groups": sample.groups,
        "response": reply.response if reply else None,
        "retrieved_contexts": exchange.retrieved_contexts,
        "retrieved_context_ids": exchange.ranking,
        "tool_calls": to_builtins(reply.tool_calls) if reply else None,
        "steps": reply.steps if reply else None,
        "model_calls": to_builtins(reply.model_calls) or None if reply else None,
        "turns": [_turn(turn) for turn in reply.turns] if reply and reply.turns else None,
        "ended": reply.ended if reply else None,
        "usage": asdict(reply.usage) if reply and reply.usage else None,
    }


def _turn(turn: AgentTurn) -> dict[str, Any]:
    reply = turn.reply
    return {
        "user": turn.user,
        "response": reply.response,
        "retrieved_contexts": reply.retrieved_contexts,
        "retrieved_context_ids": reply.retrieved_context_ids,
        "tool_calls": to_builtins(reply.tool_calls),
        "steps": reply.steps,
        "model_calls": to_builtins(reply.model_calls) or None,
        "usage": asdict(reply.usage) if reply.usage else None,
        "latencyMs": reply.latency_ms,
        "finish_reason": reply.finish_reason,
    }


def _score(score: Score) -> dict[str, Any]:
    return {
        "status": str(score.status),
        "value": score.value,
        "reason": score.reason,
        "evidence": score.evidence_or_none,
        "repeats": score.repeats,
        "cause": score.cause,
    }


_NO_TEXTS = dict.fromkeys(_texts(Exchange(Sample("", ""))))

JSONL = Reporter("jsonl", (".jsonl",), render_jsonl)
