"""Write a dataset as Mixpeek's ground truth, and say what that cannot hold."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from evalspec.datasets.base import DatasetContent, Written
from evalspec.datasets.json_document import write_json_document
from evalspec.datasets.located import Accepted, find_refusal, refuse_empty
from evalspec.datasets.losses import (
    ANSWERABLE,
    ANSWERS,
    CONTEXTS,
    CONVERSATIONS,
    GROUPS,
    REFERENCE_CONTEXTS,
    TAGS,
    UNJUDGED,
    Loss,
    find_sample_losses,
)
from evalspec.datasets.mixpeek_schema import HIGHEST_SCORE, OWN_KEY, SETTINGS, MixpeekFile, MixpeekQuery, find_question
from evalspec.records import Sample


def find_losses(content: DatasetContent) -> list[str]:
    """What this format has no place for."""
    losses = _build_settings(content)[1]
    losses += [f"the text of {len(content.documents)} documents"] if content.documents else []
    losses += find_sample_losses(content.samples, _SAMPLE_LOSSES)
    return losses + _list_queries(content).find_losses()


def write_mixpeek(content: DatasetContent, path: Path) -> Written:
    """Write one document, as Mixpeek's API takes it; without a dataset_name the file's name becomes it.

    Raises:
        InvalidInput: no sample can be written.
    """
    settings = _build_settings(content)[0]
    queries = _list_queries(content)
    write_json_document({"dataset_name": path.stem} | settings, {"queries": queries}, path)
    refuse_empty(queries.count, path)
    return Written(queries.count)


def _list_queries(content: DatasetContent) -> Accepted:
    return Accepted(MixpeekQuery, lambda: map(_to_record, content.samples), "samples")


def _build_settings(content: DatasetContent) -> tuple[dict[str, Any], list[str]]:
    """What the format can hold of the dataset's own settings, and what it cannot."""
    defaults = content.defaults
    settings = {key: value for key, value in defaults.settings.items() if _is_setting(key, value)}
    losses = [f"the setting {key}" for key in defaults.settings if key not in settings]
    losses += ["the dataset's own cut-offs"] if defaults.k else []
    losses += ["the dataset's own thresholds"] if defaults.thresholds else []
    return settings, losses


def _is_setting(key: str, value: Any) -> bool:
    return key in SETTINGS and value is not None and find_refusal(MixpeekFile, {key: value, "queries": [{}]}) is None


def _to_record(sample: Sample) -> dict[str, Any]:
    qrels = sample.qrels or {}
    record: dict[str, Any] = {
        "query_id": sample.id,
        "query_input": _own_input(sample) or {"text": sample.question},
        "relevant_documents": [document for document, grade in qrels.items() if grade >= 1],
    }
    graded = any(grade != 1 for grade in qrels.values()) and not _has_other_grades(sample)
    return record | ({"relevance_scores": dict(qrels)} if graded else {})


def _own_input(sample: Sample) -> Mapping[str, Any] | None:
    """The kept `query_input`, if it is what this format's reader keeps and still asks the same."""
    own = sample.metadata.get(OWN_KEY)
    given = own.get("query_input") if isinstance(own, dict) and own.keys() == {"query_input"} else None
    return given if isinstance(given, dict) and find_question(given) == sample.question else None


def _has_other_grades(sample: Sample) -> bool:
    return any(not 0 <= grade <= HIGHEST_SCORE for grade in (sample.qrels or {}).values())


def _has_foreign_metadata(sample: Sample) -> bool:
    return bool(sample.metadata.keys() - {OWN_KEY}) or (OWN_KEY in sample.metadata and _own_input(sample) is None)


_SAMPLE_LOSSES = (
    CONVERSATIONS,
    ANSWERS,
    CONTEXTS,
    REFERENCE_CONTEXTS,
    ANSWERABLE,
    TAGS,
    UNJUDGED,
    GROUPS,
    Loss(f"all grades of a sample, because one is outside 0 to {HIGHEST_SCORE}", _has_other_grades),
    Loss("metadata that is not Mixpeek's own", _has_foreign_metadata),
)
