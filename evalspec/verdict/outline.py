"""The outline of a run: its metrics and thresholds. Outline and scores make a Run. Stored in run.json."""

from collections.abc import Callable, Iterator, Mapping
from math import inf, isfinite
from typing import Annotated, Any

import pydantic
from msgspec import Meta, ValidationError, convert, to_builtins
from msgspec.structs import replace

from evalspec.base.errors import StoreError
from evalspec.inputs.manifest.gate_schema import CiGate
from evalspec.model import MAX_REPEATS, Dataset, Direction, Threshold
from evalspec.model.base import Record, Statistic, built
from evalspec.model.typed_json import explain

_FIX = "the file was changed, or evalspec did not write it"
_Repeats = Annotated[int, Meta(ge=1, le=MAX_REPEATS)]


class PassRule(Record, frozen=True):
    """How often a metric over the attempts at a sample has them succeed: all of `k` (`is_every`), or one of them.

    An attempt succeeds if it meets the limits on the metric `of`; None: on every metric. `implied`: the limit of a
    metric that scores 0 or 1 and has none. `judged`: whether a judge decides.
    """

    k: int
    is_every: bool
    of: str | None = None
    implied: Threshold | None = None
    judged: bool = False


class MetricOutline(Record, frozen=True):
    """One metric of a dataset.

    `bounds`: lowest and highest possible value; None: unbounded. `judged`: the metric needs the judge. `key`: changes
    with everything that scores depend on (definition, options, judge). Stored scores with an equal key are reusable.
    `skip_reason`: why the metric is not computed in this run. `rubric`, `grades`: of a metric that a rubric defines,
    its text and the score of each grade, for people who grade too. `passes`: of a metric over the attempts at a sample,
    which have no score of it; then `judged` is false, since nobody grades it.
    """

    name: str
    statistic: Statistic
    direction: Direction
    bounds: tuple[float | None, float | None]
    key: str = ""
    judged: bool = False
    skip_reason: str | None = None
    rubric: str | None = None
    grades: Mapping[str, float] = {}
    passes: PassRule | None = None

    @property
    def is_opinion(self) -> bool:
        """Whether its values are a judge's word."""
        return self.judged or (self.passes is not None and self.passes.judged)

    @property
    def reach(self) -> tuple[float, float] | None:
        """The range of the scores, on which intervals rely; None if an end is open."""
        return close(self.bounds)


def close(bounds: tuple[float | None, float | None]) -> tuple[float, float] | None:
    """Return bounds with two ends, None if one is open."""
    low, high = bounds
    return None if low is None or high is None else (low, high)


class DatasetOutline(Dataset, frozen=True, kw_only=True):
    """One dataset as it is planned.

    `slices`: metadata keys (or `tags`) to slice results by; None for all with few values. `removed`: samples of the
    baseline that are gone from its file.
    """

    metrics: tuple[MetricOutline, ...]
    slices: tuple[str, ...] | None = ()
    removed: tuple[str, ...] = ()

    @property
    def of_replies(self) -> tuple[MetricOutline, ...]:
        """The metrics that score each reply."""
        return tuple(metric for metric in self.metrics if metric.passes is None)

    @property
    def of_attempts(self) -> tuple[MetricOutline, ...]:
        """The metrics over the attempts at a sample."""
        return tuple(metric for metric in self.metrics if metric.passes is not None)


class RunOutline(Record, frozen=True):
    """A whole run. `repeats`: attempts per sample. `judge_repeats`: gradings per reply.

    `partial`: part of the manifest is deliberately not measured. `has_texts`: questions and answers are stored.
    """

    policy: CiGate
    datasets: tuple[DatasetOutline, ...]
    partial: bool = False
    repeats: _Repeats = 1
    judge_repeats: _Repeats = 1
    has_texts: bool = True


def outline_to_json(outline: RunOutline, redact: Callable[[Any], Any]) -> Any:
    """Return the outline as JSON values, with secrets redacted in the slices of thresholds and in gold sets."""
    hidden = tuple(
        replace(
            dataset,
            thresholds=tuple(_hide(limit, redact) for limit in dataset.thresholds),
            limits=tuple(replace(limit, slice=redact(limit.slice)) for limit in dataset.limits),
        )
        for dataset in outline.datasets
    )
    document = to_builtins(replace(outline, datasets=hidden), enc_hook=policy_to_json)
    for dataset in document["datasets"]:
        for key in ("gold", "sourceId", "description"):
            dataset[key] = redact(dataset.get(key))
    return document


def _hide(limit: Threshold, redact: Callable[[Any], Any]) -> Threshold:
    return replace(limit, slice=redact(limit.slice), reason=redact(limit.reason))


def parse_outline(data: Any, place: str) -> RunOutline:
    """Return the outline that `outline_to_json` encoded. `place`: the location for the error message.

    Raises:
        StoreError: The data is not a valid outline.
    """
    try:
        outline = convert(data, built(RunOutline), dec_hook=_read_policy)
    except ValidationError as error:
        field, fault = explain(error, data, RunOutline, _read_policy)
        raise StoreError(f"{place}: outline.{field}: {fault}. {_FIX}") from error
    except UnicodeEncodeError as error:
        raise StoreError(f"{place}: outline: {error}. {_FIX}") from error
    for dataset in outline.datasets:
        for fault in _find_faults(dataset):
            raise StoreError(f"{place}: outline: {fault}. {_FIX}")
    return outline


def policy_to_json(policy: CiGate) -> dict[str, Any]:
    """Return the keys of a policy that its manifest states."""
    return policy.model_dump(by_alias=True, exclude_unset=True)


def _read_policy(_kind: type, policy: Any) -> CiGate:
    try:
        return CiGate.model_validate(policy)
    except pydantic.ValidationError as error:
        first = error.errors(include_url=False)[0]
        raise ValueError(f"{'.'.join(map(str, first['loc']))}: {first['msg']}") from error


def _find_faults(dataset: DatasetOutline) -> Iterator[str]:
    """Yield faults that the types do not exclude and that no plan has."""
    for metric in dataset.metrics:
        low, high = (far if end is None else end for end, far in zip(metric.bounds, (-inf, inf), strict=True))
        if not low < high or inf in (low, -high):
            yield f"'{metric.name}' has an invalid range, {low:g} to {high:g}"
    metrics = {metric.name for metric in dataset.metrics}
    for threshold in dataset.thresholds:
        if threshold.metric not in metrics:
            yield f"a threshold on '{threshold.metric}', which is not computed"
        if any(limit is not None and not isfinite(limit) for limit in (threshold.min, threshold.max)):
            yield f"a threshold on '{threshold.metric}' that is not a number"
