"""What a JSON report tells of asking a retriever, read back."""

from collections.abc import Mapping
from typing import Any

from evalspec.records import (
    AlwaysRetrieved,
    Diagnosis,
    Intruder,
    MissingDocument,
    NeverRetrieved,
    QueryDiagnosis,
    RetrieverSettings,
    SearchTrace,
    StageLatency,
)
from evalspec.reporters.checked_json import by_key, count, each, number, optional, take, text

_texts = each(text)
_texts_by_key = by_key(text)
_count_or_none = optional(count)
_timings = by_key(number)
_oddities = by_key(count)


def parse_trace(fields: Mapping[str, Any]) -> SearchTrace | None:
    """What a sample or an attempt tells of it; None where it tells nothing.

    Raises:
        Malformed: it is not what the document promises.
    """
    timings, oddities = take(fields, "timingsMs", _timings, {}), take(fields, "oddities", _oddities, {})
    return SearchTrace(timings, oddities) if timings or oddities else None


def parse_settings(fields: Mapping[str, Any]) -> RetrieverSettings:
    """How the queries were put.

    Raises:
        Malformed: it is not what the document promises.
    """
    return RetrieverSettings(
        name=take(fields, "name", text),
        mode=take(fields, "mode", text),
        top_k=take(fields, "topK", count),
        rerank_top_k=take(fields, "rerankTopK", _count_or_none),
        scope_prefix=take(fields, "scopePrefix", text),
        depth=take(fields, "depth", count),
        min_grade=take(fields, "minGrade", count),
        origins=take(fields, "origins", _texts_by_key),
    )


def parse_stage(fields: Mapping[str, Any]) -> StageLatency:
    """What one stage took.

    Raises:
        Malformed: it is not what the document promises.
    """
    shares = (take(fields, share, number) for share in ("p50", "p95", "p99"))
    return StageLatency(take(fields, "stage", text), take(fields, "count", count), *shares)


def parse_diagnosis(fields: Mapping[str, Any]) -> Diagnosis:
    """Why rankings miss what they should have.

    Raises:
        Malformed: it is not what the document promises.
    """
    return Diagnosis(
        cutoff=take(fields, "cutoff", count),
        depth=take(fields, "depth", count),
        answered=take(fields, "answered", count),
        unanswered=take(fields, "unanswered", _texts),
        queries=take(fields, "queries", each(_query)),
        never_retrieved=take(fields, "neverRetrieved", each(_never)),
        always_retrieved=take(fields, "alwaysRetrieved", each(_always)),
    )


def _missing(fields: Mapping[str, Any]) -> MissingDocument:
    return MissingDocument(
        document=take(fields, "document", text),
        grade=take(fields, "grade", count),
        rank=take(fields, "rank", _count_or_none),
        alternatives=take(fields, "alternatives", _texts),
    )


def _intruder(fields: Mapping[str, Any]) -> Intruder:
    return Intruder(take(fields, "document", text), take(fields, "rank", count), take(fields, "grade", _count_or_none))


_all_missing = each(_missing)
_intruders = each(_intruder)


def _query(fields: Mapping[str, Any]) -> QueryDiagnosis:
    return QueryDiagnosis(
        query=take(fields, "query", text),
        missing=take(fields, "missing", _all_missing),
        pushed_out_by=take(fields, "pushedOutBy", _intruders),
        wanted=take(fields, "wanted", count),
        searched=take(fields, "searched", count),
    )


def _never(fields: Mapping[str, Any]) -> NeverRetrieved:
    return NeverRetrieved(
        document=take(fields, "document", text),
        queries=take(fields, "queries", _texts),
        best_rank=take(fields, "bestRank", _count_or_none),
        harm=take(fields, "harm", number),
    )


def _always(fields: Mapping[str, Any]) -> AlwaysRetrieved:
    return AlwaysRetrieved(
        take(fields, "document", text), take(fields, "share", number), take(fields, "blocking", count)
    )
