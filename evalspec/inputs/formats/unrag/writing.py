"""Write a dataset as Unrag's JSON, version 1, and list what it cannot represent."""

from collections.abc import Iterable, Mapping, Sequence
from os.path import commonprefix
from pathlib import Path
from typing import Any

from evalspec.inputs.datasets.base import DatasetContent, DatasetDefaults, Written, list_relevant
from evalspec.inputs.datasets.json_document import write_json_document
from evalspec.inputs.datasets.located import Accepted, explain_refusal, refuse_empty, render_ids
from evalspec.inputs.datasets.losses import (
    ANSWERS,
    GRADES,
    GROUPS,
    NATIVE_ONLY,
    UNJUDGED,
    Loss,
    list_sample_losses,
)
from evalspec.inputs.formats.unrag.compat import AS_LISTED, DEFAULT_TOP_K, LATENCY, OWN_KEY, RANKING_LIMITS
from evalspec.inputs.formats.unrag.schema import UnragDocument, UnragExtras, UnragQuery, UnragSettings, UnragSource
from evalspec.model import Document, Sample

_Fields = dict[str, Any]


def list_losses(content: DatasetContent) -> list[str]:
    """Return what this format cannot represent."""
    head, losses = _build_head(content.defaults)
    losses += list_sample_losses(content.samples, _SAMPLE_LOSSES)
    queries = _list_queries(content)
    losses += queries.list_losses()
    return losses + _build_documents(content.documents, queries, _find_scope(head, content.documents))[1]


def write_unrag(content: DatasetContent, path: Path) -> Written:
    """Write the document.

    Unrag requires an id and a scope prefix. The default id is the name of the file. The default scope prefix is the
    common prefix of the document ids, or contains the name of the file if there are no documents.

    Raises:
        InvalidInput: No sample can be written.
    """
    head, _ = _build_head(content.defaults)
    queries = _list_queries(content)
    scope = _find_scope(head, content.documents)
    documents, _ = _build_documents(content.documents, queries, scope)
    named = {"version": "1", "id": path.stem} | head
    named["defaults"] = {"scopePrefix": scope or f"eval:{path.stem}:"} | head["defaults"]
    lists: dict[str, Iterable[_Fields]] = {} if documents is None else {"documents": documents}
    write_json_document(named, lists | {"queries": queries}, path)
    refuse_empty(queries.count, path)
    return Written(queries.count, 0 if documents is None else documents.count)


def _list_queries(content: DatasetContent) -> Accepted:
    return Accepted(UnragQuery, lambda: map(_to_query, content.samples), "samples")


def _build_head(defaults: DatasetDefaults) -> tuple[_Fields, list[str]]:
    settings = {
        key: value for key, value in defaults.settings.items() if explain_refusal(UnragSettings, {key: value}) is None
    }
    losses = [f"the setting {key}" for key in defaults.settings if key not in settings]
    cutoff = max(defaults.k, default=None)
    losses += [f"the cut-off {other}" for other in defaults.k if other != cutoff]
    limits, lost_limits = _build_limits(defaults, cutoff or DEFAULT_TOP_K)
    head = {key: settings.pop(key) for key in ("id", "description") if key in settings}
    said = settings | ({"topK": cutoff} if cutoff else {}) | ({"thresholds": limits} if limits else {})
    return head | {"defaults": said}, losses + lost_limits


def _find_scope(head: _Fields, documents: Sequence[Document] | None) -> str:
    """Return the scope prefix of the dataset, or else the common prefix of all document ids up to a `:` or `/`."""
    stated: str | None = head["defaults"].get("scopePrefix")
    if stated is not None:
        return stated
    shared = commonprefix([document.id for document in documents or ()])  # noqa: RUF071 - ids are no paths
    return shared[: 1 + max(map(shared.rfind, ":/"))]


def _build_limits(defaults: DatasetDefaults, cutoff: int) -> tuple[_Fields, list[str]]:
    keys = {f"{metric}@{cutoff}": key for key, metric in RANKING_LIMITS.items()}
    limits: _Fields = {}
    losses = []
    for metric, (lowest, highest) in defaults.thresholds.items():
        if metric in keys and lowest is not None and 0 <= lowest <= 1 and highest is None:
            limits.setdefault("min", {})[keys[metric]] = lowest
        elif metric == LATENCY and lowest is None and highest is not None and highest > 0:
            limits["max"] = {"p95TotalMs": highest}
        else:
            losses.append(f"the threshold of {metric}")
    return limits, losses


def _to_query(sample: Sample) -> _Fields:
    own = dict(_own_fields(sample))
    relevant = own.pop(AS_LISTED, list_relevant(sample))
    return {"id": sample.id, "query": sample.question, **own, "relevant": {"sourceIds": relevant}}


def _own_fields(sample: Sample) -> Mapping[str, Any]:
    """Return `metadata["unrag"]`, if it has the form that the reader writes. Else an empty mapping."""
    own = sample.metadata.get(OWN_KEY)
    if own is None or explain_refusal(UnragExtras, own) is not None:
        return {}
    written = own.get(AS_LISTED)
    fits = written is None or (len(set(written)) < len(written) and set(written) == set(list_relevant(sample)))
    return own if fits else {}


def _has_foreign_metadata(sample: Sample) -> bool:
    return bool(sample.metadata.keys() - {OWN_KEY}) or (OWN_KEY in sample.metadata and not _own_fields(sample))


_SAMPLE_LOSSES = (
    ANSWERS,
    *NATIVE_ONLY,
    UNJUDGED,
    GROUPS,
    GRADES,
    Loss("metadata that is not Unrag's own", _has_foreign_metadata),
)


def _build_documents(
    documents: Sequence[Document] | None, queries: Iterable[_Fields], scope: str
) -> tuple[Accepted | None, list[str]]:
    if documents is None:
        return None, []
    if documents and not scope:
        return None, [f"all {len(documents)} documents, because their ids share no scope prefix, such as eval:faq:"]
    titled = sum(bool(document.title) for document in documents)
    foreign = sum(OWN_KEY in document.metadata and not _own_source(document) for document in documents)
    losses = [f"the titles of {titled} documents"] if titled else []
    losses += [f"metadata.{OWN_KEY} of {foreign} documents, which is not Unrag's"] if foreign else []
    kept = Accepted(UnragDocument, lambda: map(_to_entry, documents), "documents")
    known = {entry["sourceId"] for entry in kept}
    orphans = sorted({name for query in queries for name in query["relevant"]["sourceIds"]} - known)
    if known and orphans:
        return None, [f"all {len(documents)} documents, because relevant ones are missing: {render_ids(orphans)}"]
    return kept, losses + kept.losses


def _to_entry(document: Document) -> _Fields:
    metadata = {key: value for key, value in document.metadata.items() if key != OWN_KEY}
    entry: _Fields = {"sourceId": document.id, **_own_source(document)}
    return entry | ({"content": document.text} if document.text else {}) | ({"metadata": metadata} if metadata else {})


def _own_source(document: Document) -> Mapping[str, Any]:
    own = document.metadata.get(OWN_KEY)
    return own if own is not None and explain_refusal(UnragSource, own) is None else {}
