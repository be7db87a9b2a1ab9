"""What a run was to measure and what it is held to: all that, with the scores, makes a Run. Kept in run.json."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cache
from math import inf, isfinite
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import Field

from evalspec.errors import StoreError
from evalspec.manifest.schema import CiGate
from evalspec.records import MAX_REPEATS, Direction, RetrieverSettings, Threshold
from evalspec.stats import STATISTICS

if TYPE_CHECKING:
    from pydantic import TypeAdapter


_Repeats = Annotated[int, Field(ge=1, le=MAX_REPEATS)]


@dataclass(frozen=True, slots=True)
class MetricOutline:
    """One metric as a dataset computes it.

    `bounds`: lowest and highest possible value, None where there is no limit. `reach`: the bounds where scores do reach
    both, so that an interval may count on them. `judged`: the judge is asked for it.
    `key`: changes with whatever its scores depend on (definition, options, judge), so that equal keys mean that a
    stored score still counts. `skip_reason`: why it is not computed in this run.
    """

    name: str
    statistic: str
    direction: Direction
    bounds: tuple[float | None, float | None]
    reach: tuple[float, float] | None = None
    key: str = ""
    judged: bool = False
    skip_reason: str | None = None


@dataclass(frozen=True, slots=True)
class DatasetOutline:
    """One dataset: its metrics, its limits, and how its results are cut.

    `slices`: metadata keys (or `tags`); None for all that have few values. `cluster`: the metadata key of samples that
    are not independent of each other. `retriever`: how the retriever was asked, where one was.
    """

    name: str
    file: str
    metrics: tuple[MetricOutline, ...]
    thresholds: tuple[Threshold, ...] = ()
    slices: tuple[str, ...] | None = ()
    cluster: str | None = None
    retriever: RetrieverSettings | None = None


@dataclass(frozen=True, slots=True)
class RunOutline:
    """A whole run. `repeats`: how often each sample is asked; `judge_repeats`: how often each reply is graded.

    `partial`: something that was declared is deliberately not measured. `has_texts`: questions and answers are kept.
    """

    policy: CiGate
    datasets: tuple[DatasetOutline, ...]
    partial: bool = False
    repeats: _Repeats = 1
    judge_repeats: _Repeats = 1
    has_texts: bool = True


def outline_to_json(outline: RunOutline, redact: Callable[[Any], Any]) -> Any:
    """The outline as JSON values, the names of limited slices without secrets."""
    hidden = [
        replace(dataset, thresholds=tuple(replace(limit, slice=redact(limit.slice)) for limit in dataset.thresholds))
        for dataset in outline.datasets
    ]
    outline = replace(outline, datasets=tuple(hidden))
    return _adapter().dump_python(outline, mode="json", exclude_unset=True)


def parse_outline(data: Any, place: str) -> RunOutline:
    """The outline that `outline_to_json` was given; `place` is named in the error.

    Raises:
        StoreError: it is none.
    """
    from pydantic import ValidationError

    try:
        outline = _adapter().validate_python(data, strict=False)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        where = ".".join(str(part) for part in first["loc"])
        raise StoreError(
            f"{place}: outline.{where}: {first['msg']}. the file was changed, or is not evalspec's"
        ) from error
    for dataset in outline.datasets:
        for fault in _find_faults(dataset):
            raise StoreError(f"{place}: outline: {fault}. the file was changed, or is not evalspec's")
    return outline


def _find_faults(dataset: DatasetOutline) -> Iterator[str]:
    """What no plan has, though each value is of its type."""
    named = {metric.statistic for metric in dataset.metrics} | {t.stat for t in dataset.thresholds} - {None}
    for name in sorted(map(str, named - set(STATISTICS))):
        yield f"unknown statistic '{name}'"
    for metric in dataset.metrics:
        if metric.reach is not None and not -inf < metric.reach[0] < metric.reach[1] < inf:
            yield f"'{metric.name}' reaches from {metric.reach[0]:g} to {metric.reach[1]:g}"
    metrics = {metric.name for metric in dataset.metrics}
    for threshold in dataset.thresholds:
        if threshold.metric not in metrics:
            yield f"a threshold of '{threshold.metric}', which is not computed"
        if any(limit is not None and not isfinite(limit) for limit in (threshold.min, threshold.max)):
            yield f"a threshold of '{threshold.metric}' that is no number"


@cache
def _adapter() -> "TypeAdapter[RunOutline]":
    """Made once: it costs more than the reading of many outlines."""
    from pydantic import TypeAdapter

    return TypeAdapter(RunOutline)
