"""What a run was to measure and what it is held to: all that, with the scores, makes a Run. Kept in run.json."""

from collections.abc import Callable, Iterator
from math import inf, isfinite
from typing import Annotated, Any

import pydantic
from msgspec import Meta, ValidationError, convert, to_builtins
from msgspec.structs import replace
from pydantic.alias_generators import to_camel

from evalspec.errors import StoreError
from evalspec.manifest.schema import CiGate
from evalspec.model import MAX_REPEATS, Direction, RetrieverSettings, Threshold
from evalspec.model.base import Record, Statistic
from evalspec.typed_json import explain

_Repeats = Annotated[int, Meta(ge=1, le=MAX_REPEATS)]


class MetricOutline(Record, frozen=True):
    """One metric as a dataset computes it.

    `bounds`: lowest and highest possible value, None where there is no limit. `reach`: the bounds where scores do reach
    both, so that an interval may count on them. `judged`: the judge is asked for it.
    `key`: changes with whatever its scores depend on (definition, options, judge), so that equal keys mean that a
    stored score still counts. `skip_reason`: why it is not computed in this run.
    """

    name: str
    statistic: Statistic
    direction: Direction
    bounds: tuple[float | None, float | None]
    reach: tuple[float, float] | None = None
    key: str = ""
    judged: bool = False
    skip_reason: str | None = None


class DatasetOutline(Record, frozen=True):
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


class RunOutline(Record, frozen=True):
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
    hidden = tuple(
        replace(dataset, thresholds=tuple(replace(limit, slice=redact(limit.slice)) for limit in dataset.thresholds))
        for dataset in outline.datasets
    )
    return to_builtins(replace(outline, datasets=hidden), enc_hook=_policy_to_json)


def parse_outline(data: Any, place: str) -> RunOutline:
    """The outline that `outline_to_json` was given; `place` is named in the error.

    Raises:
        StoreError: it is none.
    """
    data = _in_camel_case(data)
    try:
        outline = convert(data, RunOutline, dec_hook=_read_policy)
    except ValidationError as error:
        field, fault = explain(error, data, RunOutline, _read_policy)
        raise StoreError(f"{place}: outline.{field}: {fault}. the file was changed, or is not evalspec's") from error
    except UnicodeEncodeError as error:
        raise StoreError(f"{place}: outline: {error}. the file was changed, or is not evalspec's") from error
    for dataset in outline.datasets:
        for fault in _find_faults(dataset):
            raise StoreError(f"{place}: outline: {fault}. the file was changed, or is not evalspec's")
    return outline


def _policy_to_json(policy: CiGate) -> dict[str, Any]:
    return policy.model_dump(by_alias=True, exclude_unset=True)


def _read_policy(_kind: type, policy: Any) -> CiGate:
    try:
        return CiGate.model_validate(policy)
    except pydantic.ValidationError as error:
        first = error.errors(include_url=False)[0]
        raise ValueError(f"{'.'.join(map(str, first['loc']))}: {first['msg']}") from error


def _in_camel_case(data: Any) -> Any:
    """An outline with the keys of today. They once were in snake_case; a policy may have either."""
    if isinstance(data, dict):
        return {to_camel(key): value if key == "policy" else _in_camel_case(value) for key, value in data.items()}
    return [_in_camel_case(item) for item in data] if isinstance(data, list) else data


def _find_faults(dataset: DatasetOutline) -> Iterator[str]:
    """What no plan has, though each value is of its type."""
    for metric in dataset.metrics:
        if metric.reach is not None and not -inf < metric.reach[0] < metric.reach[1] < inf:
            yield f"'{metric.name}' reaches from {metric.reach[0]:g} to {metric.reach[1]:g}"
    metrics = {metric.name for metric in dataset.metrics}
    for threshold in dataset.thresholds:
        if threshold.metric not in metrics:
            yield f"a threshold of '{threshold.metric}', which is not computed"
        if any(limit is not None and not isfinite(limit) for limit in (threshold.min, threshold.max)):
            yield f"a threshold of '{threshold.metric}' that is no number"
