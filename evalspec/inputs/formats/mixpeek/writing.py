"""Write Mixpeek's ground truth, and list what it cannot represent."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from evalspec.inputs.datasets.base import DatasetContent, Written, list_relevant
from evalspec.inputs.datasets.json_document import write_json_document
from evalspec.inputs.datasets.located import Accepted, explain_refusal, refuse_empty
from evalspec.inputs.datasets.losses import (
    ANSWERS,
    GROUPS,
    NATIVE_ONLY,
    UNJUDGED,
    WORDLESS,
    Loss,
    list_document_losses,
    list_sample_losses,
)
from evalspec.inputs.formats.mixpeek import INPUT
from evalspec.inputs.formats.mixpeek.schema import HIGHEST_SCORE, SETTINGS, MixpeekFile, MixpeekQuery
from evalspec.model import Sample
from evalspec.model.exchanges import INPUT_FILES, QUERY_INPUT


def list_losses(content: DatasetContent) -> list[str]:
    """Return what this format cannot represent."""
    losses = _build_settings(content)[1]
    losses += list_document_losses(content) + list_sample_losses(content.samples, _SAMPLE_LOSSES)
    return losses + _list_queries(content).list_losses()


def write_mixpeek(content: DatasetContent, path: Path) -> Written:
    """Write one document of Mixpeek's API. The default dataset_name is the name of the file.

    Raises:
        InvalidInput: No sample can be written.
    """
    settings = _build_settings(content)[0]
    queries = _list_queries(content)
    write_json_document({"dataset_name": path.stem} | settings, {"queries": queries}, path)
    refuse_empty(queries.count, path)
    return Written(queries.count)


def _list_queries(content: DatasetContent) -> Accepted:
    return Accepted(MixpeekQuery, lambda: map(_to_record, content.samples), "samples")


def _build_settings(content: DatasetContent) -> tuple[dict[str, Any], list[str]]:
    """Return the settings that the format can represent, and a description of those that it cannot."""
    defaults = content.defaults
    settings = {key: value for key, value in defaults.settings.items() if _is_setting(key, value)}
    losses = [f"the setting {key}" for key in defaults.settings if key not in settings]
    losses += ["the dataset's own cut-offs"] if defaults.k else []
    losses += ["the dataset's own thresholds"] if defaults.thresholds else []
    return settings, losses


def _is_setting(key: str, value: Any) -> bool:
    return key in SETTINGS and value is not None and explain_refusal(MixpeekFile, {key: value, "queries": [{}]}) is None


def _to_record(sample: Sample) -> dict[str, Any]:
    qrels = sample.qrels or {}
    record: dict[str, Any] = {
        "query_id": sample.id,
        "query_input": _own_input(sample) or {"text": sample.question},
        "relevant_documents": list_relevant(sample),
    }
    graded = any(grade != 1 for grade in qrels.values()) and not _has_other_grades(sample)
    return record | ({"relevance_scores": dict(qrels)} if graded else {})


def _own_input(sample: Sample) -> Mapping[str, Any] | None:
    """Return the `query_input` that the reader kept, if it still contains the question or never had one. Else None."""
    own = sample.metadata.get(INPUT.metadata_key)
    kept = INPUT.find_kept(sample) if isinstance(own, dict) and own.keys() <= {QUERY_INPUT, INPUT_FILES} else None
    return kept.fields if kept is not None and (kept.question_key is not None or not kept.has_words) else None


def _has_other_grades(sample: Sample) -> bool:
    return any(not 0 <= grade <= HIGHEST_SCORE for grade in (sample.qrels or {}).values())


def _has_foreign_metadata(sample: Sample) -> bool:
    keys = sample.metadata.keys()
    return bool(keys - {INPUT.metadata_key}) or (bool(keys) and _own_input(sample) is None)


_SAMPLE_LOSSES = (
    ANSWERS,
    *(loss for loss in NATIVE_ONLY if loss is not WORDLESS),
    UNJUDGED,
    GROUPS,
    Loss(f"all grades of a sample, because one is outside 0 to {HIGHEST_SCORE}", _has_other_grades),
    Loss("metadata that is not Mixpeek's own", _has_foreign_metadata),
)
