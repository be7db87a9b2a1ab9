"""The report for data analysis: Parquet with the rows of the CSV report, typed, and all that JSON Lines has."""

from collections.abc import Iterator, Mapping
from importlib import import_module
from io import BytesIO
from itertools import islice
from typing import Any

from msgspec import to_builtins

from evalspec.base.foreign_text import encodable
from evalspec.inputs.traces.steps import read_steps
from evalspec.model import Run, Score
from evalspec.model.spans import Span, TraceStep
from evalspec.reports.attempt_lines import describe_attempt
from evalspec.reports.base import Reporter, StoredExchanges
from evalspec.reports.rows import COLUMNS, AttemptRow, cause_column, read_attempts, score_columns, score_rows, to_json

MORE_COLUMNS: Mapping[str, str] = {
    "evidence": "text",
    "judge_repeats": "numbers",
    "question": "text",
    "messages": "messages",
    "references": "texts",
    "reference_contexts": "texts",
    "qrels": "grades",
    "response": "text",
    "retrieved_contexts": "texts",
    "retrieved_context_ids": "texts",
    "groups": "text",
    "tool_calls": "text",
    "turns": "text",
    "model_calls": "text",
    "steps": "whole",
    "ended": "text",
    "finish_reason": "text",
    "input_tokens": "whole",
    "output_tokens": "whole",
    "cached_input_tokens": "whole",
    "cache_write_input_tokens": "whole",
    "retries": "whole",
    "answer_digest": "text",
    "question_digest": "text",
    "request_digest": "text",
}
"""The columns that a table of scores lacks, with their types. New columns are only added at the end."""

SPAN_COLUMNS: Mapping[str, str] = {
    "run_id": "text",
    "dataset": "text",
    "sample_id": "text",
    "attempt": "whole",
    "trace_id": "text",
    "span_id": "text",
    "parent_id": "text",
    "name": "text",
    "scope": "text",
    "kind": "text",
    "start_ns": "long",
    "end_ns": "long",
    "error": "text",
    "model": "text",
    "input_tokens": "whole",
    "output_tokens": "whole",
    "documents": "text",
    "attributes": "text",
}
"""The columns of a table of spans, with their types. New columns are only added at the end."""

_AS_JSON = ("groups", "tool_calls", "turns", "model_calls")
_ROWS_OF_A_GROUP = 5_000


def render_parquet(run: Run, exchanges: StoredExchanges) -> bytes:
    """Return the compressed table. Unknown values are null, as are all texts if the run keeps none."""
    return _render({**COLUMNS, **MORE_COLUMNS}, _rows(run, exchanges))


def render_spans(run: Run, exchanges: StoredExchanges) -> bytes:
    """Return the compressed table of the spans of all attempts, which is empty if none were received."""
    return _render(SPAN_COLUMNS, _span_rows(run, exchanges))


def _render(columns: Mapping[str, str], rows: Iterator[dict[str, Any]]) -> bytes:
    pyarrow = import_module("pyarrow")
    stream, schema = BytesIO(), _schema(columns)
    with import_module("pyarrow.parquet").ParquetWriter(stream, schema, compression="zstd") as writer:
        while group := list(islice(rows, _ROWS_OF_A_GROUP)):
            writer.write_batch(pyarrow.RecordBatch.from_pylist(group, schema))
    return stream.getvalue()


def _schema(columns: Mapping[str, str]) -> Any:
    pyarrow = import_module("pyarrow")
    text, whole = pyarrow.string(), pyarrow.int32()
    texts, number = pyarrow.list_(text), pyarrow.float64()
    kinds = {
        "text": text,
        "texts": texts,
        "whole": whole,
        "long": pyarrow.int64(),
        "number": number,
        "numbers": pyarrow.list_(number),
        "truth": pyarrow.bool_(),
        "grades": pyarrow.map_(text, whole),
        "messages": pyarrow.list_(pyarrow.struct({"role": text, "content": text})),
    }
    return pyarrow.schema({name: kinds[kind] for name, kind in columns.items()}, metadata={"kind": "evalspec report"})


def _rows(run: Run, exchanges: StoredExchanges) -> Iterator[dict[str, Any]]:
    for attempt_row in read_attempts(run, exchanges):
        about = _about(run, attempt_row)
        for metric, score in score_rows(attempt_row):
            yield _encodable(about | score_columns(metric, score) | cause_column(score) | _grounds(score))


def _about(run: Run, attempt_row: AttemptRow) -> dict[str, Any]:
    """Return the columns of an attempt: those of JSON Lines. Some are JSON or have other names here."""
    told, attempt = describe_attempt(run, attempt_row), attempt_row.attempt
    messages = told.pop("user_input")
    is_conversation = isinstance(messages, list)
    return {
        **{name: told[name] for name in (*COLUMNS, *MORE_COLUMNS) if name in told},
        **{name: None if told[name] is None else to_json(told[name]) for name in ("metadata", *_AS_JSON)},
        **(told["usage"] or {}),
        "question": attempt_row.exchange and attempt_row.exchange.sample.question,
        "messages": [{key: one[key] for key in ("role", "content")} for one in messages] if is_conversation else None,
        "qrels": None if told["qrels"] is None else list(told["qrels"].items()),
        "retries": attempt.retries,
        "answer_digest": attempt.answer_digest,
    }


def _grounds(score: Score | None) -> dict[str, Any]:
    if score is None:
        return {}
    return {
        "evidence": None if score.evidence_or_none is None else to_json(score.evidence),
        "judge_repeats": score.repeats or None,
    }


def _span_rows(run: Run, exchanges: StoredExchanges) -> Iterator[dict[str, Any]]:
    for row in read_attempts(run, exchanges):
        spans = () if row.exchange is None else row.exchange.spans
        steps = {step.span_id: step for step in read_steps(spans)}
        for span in spans:
            yield _encodable(_describe_span(run, row, span, steps[span.span_id]))


def _describe_span(run: Run, row: AttemptRow, span: Span, step: TraceStep) -> dict[str, Any]:
    """Return the columns of a span: where it belongs, what it is, and what evalspec reads in it."""
    own = {name: getattr(span, name) for name in Span.__struct_fields__ if name in SPAN_COLUMNS}
    documents = None if step.documents is None else to_json(to_builtins(step.documents))
    read = {"kind": str(step.kind), "model": step.model, "documents": documents}
    usage = step.usage
    used = {} if usage is None else {"input_tokens": usage.input_tokens, "output_tokens": usage.output_tokens}
    place = {"dataset": row.dataset.name, "sample_id": row.sample.id, "attempt": row.number}
    return {**own, "run_id": run.id, **place, **read, **used, "attributes": to_json(span.attributes)}


def _encodable(value: Any) -> Any:
    """Return a value in which every text can be encoded as UTF-8."""
    if isinstance(value, str):
        return encodable(value)
    if isinstance(value, dict):
        return {key: _encodable(item) for key, item in value.items()}
    return type(value)(map(_encodable, value)) if isinstance(value, list | tuple) else value


SPANS = Reporter("parquet-spans", (".spans.parquet",), render_spans, imports=("pyarrow",), extra="parquet")
PARQUET = Reporter("parquet", (".parquet",), render_parquet, imports=("pyarrow",), extra="parquet")
