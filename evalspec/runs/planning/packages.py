"""The extras that a manifest needs, from what it declares. No dataset is read."""

from collections.abc import Iterator

from evalspec.inputs.manifest.metric_schema import MetricEntry
from evalspec.inputs.manifest.metric_spec import split_column
from evalspec.inputs.manifest.schema import Manifest
from evalspec.model import Need
from evalspec.scoring.metrics.base import METRICS
from evalspec.scoring.metrics.columns import find_definition

_OF_RETRIEVER = {"bm25": ("retrievers",), "dense": ("local",), "hybrid": ("retrievers", "local"), "qdrant": ("qdrant",)}
_OF_NEED = {Need.JUDGE: "judge", Need.EMBEDDINGS: "local"}
_OF_FILE = {".parquet": "parquet", ".arrow": "parquet", ".eval": "inspect"}


def find_extras(manifest: Manifest, *, no_judge: bool = False) -> dict[str, list[str]]:
    """Return each extra that an evaluation needs, with what needs it, such as `{"judge": ["faithfulness"]}`.

    `no_judge`: judged metrics are skipped. An extra whose packages are installed is listed too.
    """
    evaluation, found = manifest.spec.evaluation, dict[str, list[str]]()
    for extra, needed_by in _list_needs(manifest, no_judge):
        if extra != "local" or evaluation.embeddings.provider == "local":
            found.setdefault(extra, []).append(needed_by)
    return {extra: list(dict.fromkeys(names)) for extra, names in sorted(found.items())}


def _list_needs(manifest: Manifest, no_judge: bool) -> Iterator[tuple[str, str]]:
    evaluation, api = manifest.spec.evaluation, manifest.spec.api
    for dataset in evaluation.datasets:
        for entry in dataset.metrics or evaluation.metrics or ():
            yield from ((extra, entry.name) for extra in _list_of_metric(entry, no_judge))
        for path in (dataset.path, dataset.corpus or ""):
            yield from ((_OF_FILE[end], path) for end in _OF_FILE if path.lower().endswith(end))
    for name, variants in evaluation.retrievers.items():
        for target in variants.values():
            yield from ((extra, name) for extra in _OF_RETRIEVER.get(getattr(target, "builtin", ""), ()))
    if api is not None and api.traces is not None:
        yield "traces", "spec.api.traces"


def _list_of_metric(entry: MetricEntry, no_judge: bool) -> Iterator[str]:
    definition = None if entry.rubric or entry.scorer else find_definition(split_column(entry.name).base)
    root = METRICS.find(definition.base) if definition is not None and definition.base else definition
    needs = {Need.JUDGE} if entry.rubric else frozenset() if root is None else root.needs
    if no_judge and Need.JUDGE in needs:
        return
    yield from (extra for need, extra in _OF_NEED.items() if need in needs)
    if root is not None and root.extra:
        yield root.extra
