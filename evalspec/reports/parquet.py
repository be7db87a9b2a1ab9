"""The report for data analysis: Parquet with the rows of the CSV report, typed columns and texts. Needs pyarrow."""

from collections.abc import Iterator
from importlib import import_module
from io import BytesIO
from itertools import islice
from typing import Any

from evalspec.base.foreign_text import encodable
from evalspec.model import Exchange, Run, Score
from evalspec.reports.base import Reporter, StoredExchanges
from evalspec.reports.rows import (
    COLUMNS,
    cause_column,
    identify,
    read_attempts,
    score_columns,
    score_rows,
    timing_columns,
    to_json,
)

_ROWS_OF_A_GROUP = 5_000


def render_parquet(run: Run, exchanges: StoredExchanges) -> bytes:
    """Return the compressed table. Unknown values are null, as are all texts if the run keeps none."""
    pyarrow = import_module("pyarrow")
    stream, schema, rows = BytesIO(), _schema(), _rows(run, exchanges)
    with import_module("pyarrow.parquet").ParquetWriter(stream, schema, compression="zstd") as writer:
        while group := list(islice(rows, _ROWS_OF_A_GROUP)):
            writer.write_batch(pyarrow.RecordBatch.from_pylist(group, schema))
    return stream.getvalue()


def _schema() -> Any:
    pyarrow = import_module("pyarrow")
    text, whole = pyarrow.string(), pyarrow.int32()
    texts = pyarrow.list_(text)
    kinds = {"text": text, "texts": texts, "whole": whole, "number": pyarrow.float64(), "truth": pyarrow.bool_()}
    return pyarrow.schema(
        {name: kinds[kind] for name, kind in COLUMNS.items()}
        | {
            "evidence": text,
            "judge_repeats": pyarrow.list_(kinds["number"]),
            "question": text,
            "messages": pyarrow.list_(pyarrow.struct({"role": text, "content": text})),
            "references": texts,
            "reference_contexts": texts,
            "qrels": pyarrow.map_(text, whole),
            "response": text,
            "retrieved_contexts": texts,
            "retrieved_context_ids": texts,
        },
        metadata={"kind": "evalspec report"},
    )


def _rows(run: Run, exchanges: StoredExchanges) -> Iterator[dict[str, Any]]:
    for attempt_row in read_attempts(run, exchanges):
        about = identify(run, attempt_row) | timing_columns(attempt_row)
        about["metadata"] = to_json(about["metadata"])
        if attempt_row.exchange:
            about |= _texts(attempt_row.exchange)
        for metric, score in score_rows(attempt_row):
            yield _encodable(about | score_columns(metric, score) | cause_column(score) | _grounds(score))


def _texts(exchange: Exchange) -> dict[str, Any]:
    """Return the text columns. `messages` is null unless the sample is a conversation. `question`: last user turn."""
    sample = exchange.sample
    conversation = None if isinstance(sample.user_input, str) else sample.user_input
    return {
        "question": sample.question,
        "messages": conversation and [{"role": turn.role, "content": turn.content} for turn in conversation],
        "references": sample.references,
        "reference_contexts": sample.reference_contexts,
        "qrels": None if sample.qrels is None else list(sample.qrels.items()),
        "response": exchange.reply.response if exchange.reply else None,
        "retrieved_contexts": exchange.retrieved_contexts,
        "retrieved_context_ids": exchange.ranking,
    }


def _grounds(score: Score | None) -> dict[str, Any]:
    if score is None:
        return {}
    return {
        "evidence": None if score.evidence_or_none is None else to_json(score.evidence),
        "judge_repeats": score.repeats or None,
    }


def _encodable(value: Any) -> Any:
    """Return a value in which every text can be encoded as UTF-8."""
    if isinstance(value, str):
        return encodable(value)
    if isinstance(value, dict):
        return {key: _encodable(item) for key, item in value.items()}
    return type(value)(map(_encodable, value)) if isinstance(value, list | tuple) else value


PARQUET = Reporter("parquet", (".parquet",), render_parquet, imports=("pyarrow",), extra="parquet")
