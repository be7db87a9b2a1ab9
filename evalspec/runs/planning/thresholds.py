"""Resolve the thresholds of a manifest to thresholds on the metrics of each dataset.

A dataset's own threshold overrides the evaluation's on the same metric, statistic and slice, and null lifts it. Both
override those of the dataset's file. A threshold that is enforced in no dataset is an error. A threshold may use an
unlisted metric if it is free to compute (`implicit`): latency, error rate, and hallucination beside faithfulness.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence

from msgspec import Struct
from msgspec.structs import replace

from evalspec.base.errors import Problem, split_fix
from evalspec.base.registry import find_close, near_miss
from evalspec.inputs.manifest.loader import LoadedManifest
from evalspec.inputs.manifest.metric_schema import Limit, MetricEntry
from evalspec.inputs.manifest.metric_spec import find_scored, parse_metric_spec, parse_passes
from evalspec.inputs.manifest.yaml_source import Place
from evalspec.model import Direction, LimitStatus, Need, Threshold
from evalspec.runs.planning.draft import Decision, Identity, PlannedDataset
from evalspec.runs.planning.metrics import MetricFinder
from evalspec.runs.planning.passes import PlannedPasses
from evalspec.scoring.metrics.base import METRICS, Metric
from evalspec.scoring.metrics.columns import canonical_spec, find_column, name_close, name_cutoffs
from evalspec.verdict.outline import close


def list_suspicious_limits(metric: Metric, limits: Sequence[Threshold]) -> Iterator[tuple[int, str, str]]:
    """Yield the suspicious thresholds on a metric: index, message and fix."""
    for index, limit in enumerate(limits):
        found = _find_idle(metric, limit) or _find_unusual(metric, limit)
        if found:
            yield index, *found
    higher, low_and_high = metric.definition.direction is Direction.HIGHER, None not in metric.bounds
    stated = [limit.min if higher else limit.max for limit in limits]
    if limits and low_and_high and not _is_own(metric) and stated.count(None) == len(stated):
        side, better, other = ("maximum", "higher", "min") if higher else ("minimum", "lower", "max")
        message = f"{metric.name} has only a {side}, but {better} is better: only bad replies pass"
        yield 0, message, f"use {other}, or add {other}"


def _find_idle(metric: Metric, limit: Threshold) -> tuple[str, str] | None:
    """Return message and fix if a threshold is at the end of the metric's range, so no value can fail it."""
    low, high = metric.bounds
    may_undercut = limit.min is not None and (low is None or limit.min > low)
    may_exceed = limit.max is not None and (high is None or limit.max < high)
    if may_undercut or may_exceed:
        return None
    return f"no value of {metric.name} can fail this threshold", "tighten or remove it"


def _find_unusual(metric: Metric, limit: Threshold) -> tuple[str, str] | None:
    """Return message and fix if a threshold accepts a bad mean. Thresholds on other statistics are not checked."""
    least, most = metric.definition.usual_limits
    best = metric.bounds[1 if metric.definition.direction is Direction.HIGHER else 0]
    if limit.stat not in (None, "mean"):
        return None
    for side, value, is_odd in (
        ("minimum", limit.min, least is not None and limit.min is not None and limit.min < least),
        ("maximum", limit.max, most is not None and limit.max is not None and limit.max > most),
    ):
        if is_odd and value is not None:
            message = f"a {side} of {value:g} on {metric.name} accepts most failures; its best value is {best:g}"
            return message, f"did you mean {1 - value:g}?"
    return None


def _is_own(metric: Metric) -> bool:
    entry = metric.settings.get("entry", {})
    return bool(entry.get("rubric") or entry.get("scorer"))


_NO_LIFT = "remove it, or write the slice and stat of the threshold that it is meant for"


class ThresholdFinder(Struct):
    """Resolves the thresholds of each dataset. Errors go to the finder's problems, suspicious ones to `warnings`."""

    loaded: LoadedManifest
    finder: MetricFinder
    warnings: list[Problem]

    @property
    def _confidence(self) -> float | None:
        """Return the gate's confidence, which a threshold may override."""
        return self.loaded.manifest.spec.evaluation.ci_gate.confidence

    def _bind(self, metric: Metric, limit: Limit) -> Threshold:
        return to_threshold(metric.name, metric.definition.direction, limit, self._confidence)

    def own(self, dataset: PlannedDataset) -> None:
        """Add the dataset's own thresholds, and what it lifts."""
        decided: dict[Identity, Decision] = {}
        place = (*dataset.place, "thresholds")
        for name, key, given in self._name_all(dataset.config.thresholds, place, [dataset]):
            if not self._ensure(dataset, name, (*place, key)):
                if find_scored(name) in self.finder.unusable:
                    continue
                fix = name_cutoffs(name, dataset.metrics) or _how_to_compute(name)
                self._add((*place, key), f"dataset '{dataset.name}' does not compute {name}", fix)
                continue
            self._append([dataset], name, given, (*place, key))
            bound = {dataset.identify(name, limit) for limit in given if not limit.lifts}
            for index, limit in enumerate(given):
                where = self._place_of(index, (*place, key))
                problem = self.loaded.problem(where, f"null lifts no threshold of dataset '{dataset.name}'", _NO_LIFT)
                status = LimitStatus.LIFTED if limit.lifts else LimitStatus.OVERRIDDEN
                identity = dataset.identify(name, limit)
                if limit.lifts and identity in bound:
                    _add_new(problem, self.finder.problems)
                    continue
                decided.setdefault(identity, Decision(status, self._shown_place(where), problem))
        dataset.decided.update(decided)

    def add_metrics_of_file(self, dataset: PlannedDataset) -> None:
        """Add the metrics that the dataset's file limits."""
        for name in dataset.data.content.defaults.thresholds:
            metric = dataset.metrics.get(name) or self._find(dataset, name, ("spec", "evaluation"))
            if metric is not None:
                dataset.metrics[name] = metric

    def of_file(self, dataset: PlannedDataset) -> None:
        """Add the thresholds of the dataset's file, which those of the manifest override."""
        for name, (minimum, maximum) in dataset.data.content.defaults.thresholds.items():
            if name in dataset.metrics:
                limit = Threshold(name, minimum, maximum, confidence=self._confidence)
                dataset.record((name, dataset.metrics[name].definition.statistic, None), limit, dataset.file)

    def check_lifts(self, dataset: PlannedDataset) -> None:
        """Reject each null that lifts nothing."""
        for decision in dataset.decided.values() if dataset.available else ():
            if decision.status is LimitStatus.LIFTED and not decision.is_used:
                _add_new(decision.problem, self.finder.problems)

    def shared(self, datasets: Sequence[PlannedDataset], limits: Mapping[str, Sequence[Limit]]) -> None:
        """Add the evaluation's thresholds to every dataset that computes their metrics."""
        place: Place = ("spec", "evaluation", "thresholds")
        stated: list[tuple[Sequence[PlannedDataset], str, Sequence[Limit], Place]] = []
        for name, key, given in self._name_all(limits, place, datasets):
            for index, limit in enumerate(given):
                if limit.lifts:
                    fix = "lift it in a dataset, or remove this line"
                    self._add(self._place_of(index, (*place, key)), "null lifts a threshold of the evaluation", fix)
            computing = self._computing(datasets, name, (*place, key))
            if not computing and find_scored(name) not in self.finder.unusable:
                known = sorted({metric for dataset in datasets for metric in dataset.metrics})
                computed = ", ".join(known) or "none"
                fix = f"add it to a dataset's metrics or remove the threshold; computed metrics: {computed}"
                other = name_cutoffs(name, known)
                if not (other and any(dataset.data.problems for dataset in datasets)):  # a file may have cut-offs
                    self._add((*place, key), f"no dataset computes {name}", other or name_close(name, known) or fix)
            self._append(computing, name, given, (*place, key))
            stated.append((computing, name, given, (*place, key)))
        for one in stated:
            self._override_files(*one)

    def _override_files(
        self, datasets: Sequence[PlannedDataset], name: str, limits: Sequence[Limit], place: Place
    ) -> None:
        """Let the evaluation's thresholds override those of the datasets' files."""
        for index, limit in enumerate(limits):
            where = self._place_of(index, place)
            decision = Decision(LimitStatus.OVERRIDDEN, self._shown_place(where), self.loaded.problem(where, ""))
            for dataset in datasets:
                dataset.decided.setdefault(dataset.identify(name, limit), decision)

    def _shown_place(self, place: Place) -> str:
        return f"{self.loaded.source.file}:{self.loaded.source.line(place)}"

    def _name_all(
        self, limits: Mapping[str, Sequence[Limit]], place: Place, datasets: Sequence[PlannedDataset]
    ) -> Iterator[tuple[str, str, Sequence[Limit]]]:
        """Yield the column of each metric, its key and its limits. Two keys of one column are an error."""
        keys: dict[str, str] = {}
        columns = self.finder.unusable.union(*(dataset.metrics for dataset in datasets))
        for key, given in limits.items():
            name = self._find_name(key, given, columns, (*place, key))
            if name in keys:
                self._add(
                    (*place, key), f"'{key}' and '{keys[name]}' are one metric, {name}", "write one list of limits"
                )
            elif name is not None:
                keys[name] = key
                yield name, key, given

    def _find_name(self, key: str, limits: Sequence[Limit], columns: Collection[str], place: Place) -> str | None:
        """Return the column that a key and the `of` of its limits mean."""
        spec = None if key in columns else parse_passes(key)
        for index, limit in enumerate(limits):
            for field in ("of",) if spec is None else ("stat",):
                if getattr(limit, field) is not None:
                    message = f"{field} means nothing for {key}"
                    fix = "it belongs to pass^K and pass@K" if spec is None else "its value is the mean over samples"
                    self._add(self._place_of(index, place), message, f"remove it: {fix}")
                    return None
        if spec is None:
            return self._find_column(key, columns, place)
        named = dict.fromkeys(limit.of or spec.of for limit in limits)
        if len(named) > 1 or (spec.of and spec.of not in named):
            fix = f"give each a key of its own, such as '{replace(spec, of=None)} of {next(filter(None, named))}': 0.7"
            self._add(place, f"the limits of {key} are about different metrics", fix)
            return None
        wanted = next(iter(named))
        if wanted is None:
            return str(spec)
        try:
            found = find_column(wanted, columns, self.finder.own)
        except ValueError as error:
            self._add(place, *split_fix(str(error)))
            return None
        if found is None:
            self._add(place, f"no dataset computes {wanted}", near_miss(wanted, columns))
            return None
        return str(replace(spec, of=found))

    def _find_column(self, key: str, columns: Collection[str], place: Place) -> str | None:
        """Return the column that a key means: a computed one, else that of a metric which may be free to compute."""
        try:
            found = find_column(key, columns, self.finder.own)
            return found or str(canonical_spec(parse_metric_spec(key), self.finder.own))
        except ValueError as error:
            message, fix = split_fix(str(error))
            self._add(place, message, fix)
            return None

    def _computing(self, datasets: Sequence[PlannedDataset], name: str, place: Place) -> list[PlannedDataset]:
        """Return the datasets that a shared threshold applies to: those that list the metric, otherwise all that can.

        A metric that needs only a reply (latency, error rate) is gated in all datasets, whichever list it.
        """
        if parse_passes(name):
            return [dataset for dataset in datasets if self._ensure(dataset, name, place)]
        listing = [dataset for dataset in datasets if name in dataset.listed]
        definition = METRICS.find(parse_metric_spec(name).base)
        everywhere = definition is not None and not definition.needs
        if listing and not everywhere:
            return listing
        fit = [
            dataset
            for dataset in datasets
            if dataset.retriever is not None or not (definition and definition.is_staged)
        ]
        return [dataset for dataset in fit if self._ensure(dataset, name, place)]

    def _ensure(self, dataset: PlannedDataset, name: str, place: Place) -> bool:
        """Return whether the dataset computes the metric. Add the metric if it is free to compute."""
        if name in dataset.metrics or name in dataset.passes:
            return True
        if passes := parse_passes(name):
            if passes.of is None or passes.of in dataset.metrics:
                dataset.passes[name] = PlannedPasses(passes, place)
            return name in dataset.passes
        definition = METRICS.find(parse_metric_spec(name).base)
        if definition is None or not definition.implicit or name in self.finder.unusable:
            return False
        if definition.base is not None and definition.base not in dataset.metrics:
            return False
        metric = self._find(dataset, name, place)
        if metric is not None:
            dataset.metrics[name] = metric
        return metric is not None

    def _find(self, dataset: PlannedDataset, name: str, place: Place) -> Metric | None:
        return self.finder.find(MetricEntry(name=name), place, dataset.rules)

    def _append(self, datasets: Sequence[PlannedDataset], name: str, limits: Sequence[Limit], place: Place) -> None:
        """Add thresholds to datasets. A threshold on a slice is added only to datasets with samples in it."""
        bound = [limit for limit in limits if not limit.lifts]
        for dataset in datasets:
            if any(dataset.identify(name, limit) not in dataset.decided for limit in bound):
                self._warn_of_doubts(dataset.find_metric(name), limits, place)
        for index, limit in enumerate(limits):
            where = self._place_of(index, place)
            if datasets and not any(dataset.survey.has_slice(limit.slice) for dataset in datasets):
                self._refuse_slice(datasets, limit.slice, where)
            for dataset in datasets:
                if limit.lifts or dataset.identify(name, limit) in dataset.decided:
                    continue
                self._check_range(dataset.find_metric(name), limit, where)
                self._check_confidence(dataset.find_metric(name), limit, where)
            if not limit.lifts:
                self._enforce(datasets, name, limit, where)
        self._refuse_looser(datasets, name, limits, place)

    def _enforce(self, datasets: Sequence[PlannedDataset], name: str, limit: Limit, place: Place) -> None:
        """Add a limit to the ledgers. A limit that all datasets override or lift is an error."""
        found = [
            dataset.record(
                dataset.identify(name, limit),
                self._bind(dataset.find_metric(name), limit),
                self._shown_place(place),
            )
            for dataset in datasets
        ]
        causes = {f"{one.status} by {one.by}": None for one in found if one.by}
        if causes and all(one.status is not LimitStatus.ENFORCED for one in found):
            self._add(place, f"this threshold is enforced in no dataset: {', '.join(causes)}", "remove it")

    def _refuse_looser(
        self, datasets: Sequence[PlannedDataset], name: str, limits: Sequence[Limit], place: Place
    ) -> None:
        """Reject a limit that another one of the same list implies, so that it can decide nothing."""
        for dataset in datasets:
            bound = [
                (dataset.identify(name, limit), self._bind(dataset.find_metric(name), limit), index)
                for index, limit in enumerate(limits)
                if not limit.lifts
            ]
            for identity, limit, index in bound:
                others = [other for other in bound if other[0] == identity and other[2] != index]
                for _, other, number in others:
                    if _implies(other, limit) and (number < index or not _implies(limit, other)):
                        line = self.loaded.source.line(self._place_of(number, place))
                        message = f"this threshold decides nothing: that of line {line} is as strict"
                        self._add(self._place_of(index, place), message, "remove it")

    def _place_of(self, index: int, place: Place) -> Place:
        """Return the place of one of the thresholds on a metric, which may be a list or a single value."""
        return (*place, index) if (*place, index) in self.loaded.source.lines else place

    def _warn_of_doubts(self, metric: Metric, limits: Sequence[Limit], place: Place) -> None:
        bound = [(index, limit) for index, limit in enumerate(limits) if not limit.lifts]
        thresholds = [self._bind(metric, limit) for _, limit in bound]
        for number, message, fix in list_suspicious_limits(metric, thresholds):
            where = self._place_of(bound[number][0], place)
            _add_new(self.loaded.problem(where, message, fix), self.warnings)

    def _check_range(self, metric: Metric, limit: Limit, place: Place) -> None:
        low, high = metric.bounds
        for value in (limit.bound, limit.min, limit.max):
            if value is None:
                continue
            if (low is not None and value < low) or (high is not None and value > high):
                message = f"{value:g} is outside the range of {metric.name}, {_shown(low)} to {_shown(high)}"
                is_percent = high == 1 and 1 < value <= 100
                self._add(place, message, f"did you mean {value / 100:g}?" if is_percent else "")

    def _check_confidence(self, metric: Metric, limit: Limit, place: Place) -> None:
        """Reject a limit with confidence on a mean without a range, which no data can meet."""
        confidence = self._bind(metric, limit).confidence
        if confidence is None or (limit.stat or metric.definition.statistic) != "mean" or close(metric.bounds):
            return
        message = f"no mean of {metric.name} is known at {100 * confidence:g} % confidence, because it has no range"
        declared = f"{{name: {metric.name}, range: [0, 1000]}}"
        self._add(place, message, f"declare one, as in {declared}, limit a percentile, or set confidence: null")

    def _refuse_slice(self, datasets: Sequence[PlannedDataset], name: str | None, place: Place) -> None:
        """Add a problem for an unknown slice, unless an unread dataset may have it."""
        if not all(dataset.available for dataset in datasets):
            return
        tags = sorted({tag for dataset in datasets for tag in dataset.survey.tags})
        key, mark, value = (name or "").partition("=")
        known = {key for dataset in datasets for key in dataset.survey.keys} if mark else tags
        close = None if key in known else find_close(key, known)
        fix = f"use a tag or key=value of the metadata; tags: {', '.join(tags) or 'none'}"
        meant = f"did you mean '{close}{mark}{value}'?" if close else fix
        self._add(place, f"no sample is in the slice '{name}'", meant)

    def _add(self, place: Place, message: str, fix: str = "") -> None:
        _add_new(self.loaded.problem(place, message, fix), self.finder.problems)


def to_threshold(name: str, direction: Direction, limit: Limit, confidence: float | None) -> Threshold:
    """Return the threshold for a limit. A bare number limits the worse side of the metric. `confidence`: the gate's."""
    stated = {field: getattr(limit, field) for field in limit.model_fields_set - {"bound", "of"}}
    if limit.bound is not None:
        stated["min" if direction is Direction.HIGHER else "max"] = limit.bound
    return Threshold(name, **({"confidence": confidence} | stated))


def _implies(strict: Threshold, loose: Threshold) -> bool:
    """Return whether all that meets one threshold meets the other, at the same confidence."""
    lower = loose.min is None or (strict.min is not None and strict.min >= loose.min)
    upper = loose.max is None or (strict.max is not None and strict.max <= loose.max)
    return lower and upper and strict.confidence == loose.confidence


def _add_new(problem: Problem, known: list[Problem]) -> None:
    """Add a problem once: a shared threshold is checked in each dataset, mostly with the same result."""
    if problem not in known:
        known.append(problem)


def _shown(bound: float | None) -> str:
    return "unlimited" if bound is None else f"{bound:g}"


def _how_to_compute(name: str) -> str:
    definition = METRICS.find(parse_metric_spec(name).base)
    is_staged = definition is not None and Need.CANDIDATE_IDS in definition.needs
    return "set mode: retrieve+rerank" if is_staged else "add it to its metrics"
