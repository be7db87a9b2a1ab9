"""How well people agree with each other, and with the scores of a run."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from evalspec.curation.labels.binding import Case, LabelMatch
from evalspec.curation.labels.cases import LabelledRun
from evalspec.curation.labels.current import group_by_target, list_blind, list_current, list_visible
from evalspec.curation.labels.judged_run import JudgedRun
from evalspec.curation.labels.labelling import match_labels
from evalspec.model import Agreement, Threshold
from evalspec.model.labels import (
    OF_REPLIES,
    OF_SHOWN_SCORES,
    Label,
    LabelConfusion,
    LabelShare,
    LabelStats,
    LabelVerdict,
    MetricLabels,
    ReplyLabels,
)
from evalspec.runs.store.run_store import STORE, RunStore
from evalspec.verdict.stats.agreement import TOO_FEW, RatedCase, measure_agreement
from evalspec.verdict.stats.bounded import estimate_share

_COMMON = 30
"""Least number of cases that both of two people labelled for Cohen's kappa of them."""


def measure_labels(run: str = "latest", *, store: Path | str = STORE) -> LabelStats:
    """Return what the labels of a store say about a run: how people agree with each other and with the metrics.

    Labels of other runs count where reply, metric, judge and score are equal. Shares and confusion count the latest
    label of each person, the agreement of people the latest blind one.

    Args:
        run: Id of a run, its beginning, a name of the run, or `latest`.
        store: Folder of the runs.

    Raises:
        InvalidInput: There is no such run, or a file of labels is damaged.
        StoreError: The run is damaged.
    """
    opened = LabelledRun(RunStore(Path(store)), run)
    return compute_label_stats(opened, opened.files.read_all())


def compute_label_stats(run: JudgedRun, labels: Iterable[Label], viewer: str | None = None) -> LabelStats:
    """Return what labels, of this run and of others, say about a run that is open.

    `viewer`: count only labels that this person may see, because shares of few labels show each of them. None: all.
    """
    matches = match_labels(run, labels)
    counting = matches.pop(LabelMatch.COUNTS, [])
    every = list_current(counting)
    current = every if viewer is None else list_visible(counting, viewer)
    visible = {one.target for one in current}
    blind = list_blind(one for one in counting if one.target in visible)
    places = dict.fromkeys((one.dataset, one.metric) for one in current)
    own_of: Mapping[tuple[str, str | None], list[Label]] = {
        place: [one for one in current if (one.dataset, one.metric) == place] for place in places
    }
    blind_of = {place: [one for one in blind if (one.dataset, one.metric) == place] for place in places}
    return LabelStats(
        run=run.id,
        labellers=dict(Counter(one.labeller for one in current).most_common()),
        carried=_count_runs(one for one in current if one.run != run.id),
        reusable=_count_runs(_list_current_by_run(matches.pop(LabelMatch.REUSABLE, []))),
        left_out=_count_left_out(run, matches),
        informed=sum(one.is_informed for one in current),
        hidden=len(every) - len(current),
        replies=tuple(
            _measure_replies(run, dataset, own, blind_of[dataset, metric])
            for (dataset, metric), own in own_of.items()
            if metric is None
        ),
        metrics=tuple(
            _measure_metric(run, dataset, metric, own, blind_of[dataset, metric])
            for (dataset, metric), own in sorted(own_of.items(), key=lambda entry: (entry[0][0], entry[0][1] or ""))
            if metric is not None
        ),
    )


def _list_current_by_run(labels: Iterable[Label]) -> list[Label]:
    by_run: dict[str, list[Label]] = {}
    for one in labels:
        by_run.setdefault(one.run, []).append(one)
    return [one for own in by_run.values() for one in list_current(own)]


def _count_runs(labels: Iterable[Label]) -> dict[str, int]:
    return dict(sorted(Counter(one.run for one in labels).items()))


def _count_left_out(run: JudgedRun, matches: Mapping[LabelMatch, Sequence[Label]]) -> dict[str, int]:
    """Return the labels that do not count, by reason. Labels of other runs on other samples are no part of this."""
    found = {
        str(match): len(_list_current_by_run(one for one in labels if _is_near(run, one)))
        for match, labels in matches.items()
    }
    return {reason: count for reason, count in sorted(found.items()) if count}


def _is_near(run: JudgedRun, label: Label) -> bool:
    return label.run == run.id or run.has_sample(label.dataset, label.sample)


def _measure_replies(run: JudgedRun, dataset: str, labels: Sequence[Label], blind: Sequence[Label]) -> ReplyLabels:
    return ReplyLabels(
        dataset=dataset,
        good=_share(run, labels, LabelVerdict.GOOD),
        agreement=_measure_people(run, blind, OF_REPLIES),
    )


def _measure_metric(
    run: JudgedRun, dataset: str, metric: str, labels: Sequence[Label], blind: Sequence[Label]
) -> MetricLabels:
    return MetricLabels(
        dataset=dataset,
        metric=metric,
        judge=run.find_judge(dataset, metric),
        agree=_share(run, [one for one in labels if one.verdict in OF_SHOWN_SCORES], LabelVerdict.AGREE),
        rated=len({one.target for one in labels if one.verdict is LabelVerdict.RATED}),
        agreement=_measure_people(run, blind, OF_SHOWN_SCORES),
        confusion=_confuse(run, dataset, metric, labels),
    )


def _measure_people(run: JudgedRun, labels: Iterable[Label], verdicts: Sequence[LabelVerdict]) -> tuple[Agreement, ...]:
    cases = [
        RatedCase(run.find_unit(*target[:2]), {one.labeller: str(one.verdict) for one in own})
        for target, own in group_by_target(one for one in labels if one.verdict in verdicts).items()
    ]
    return tuple(measure_agreement(cases, [str(one) for one in verdicts], _COMMON))


def _share(run: JudgedRun, labels: Iterable[Label], verdict: LabelVerdict) -> LabelShare:
    """Return the share of a verdict. Of a case that several people labelled, each has an equal part."""
    by_target = group_by_target(labels)
    if not by_target:
        return LabelShare(unknown="nobody has said that")
    shares = [sum(one.verdict is verdict for one in own) / len(own) for own in by_target.values()]
    units = [run.find_unit(*target[:2]) for target in by_target]
    value, interval, method = estimate_share(shares, units)
    return LabelShare(
        labelled=len(shares),
        units=len(set(units)),
        value=value,
        interval=interval,
        interval_method=method,
        unknown=None if interval else TOO_FEW,
    )


def _confuse(run: JudgedRun, dataset: str, metric: str, labels: Sequence[Label]) -> LabelConfusion | None:
    """Return on which side of the threshold metric and people place the labelled scores. None without a threshold."""
    cells: Counter[str] = Counter()
    general: set[tuple[float | None, float | None]] = set()
    for target, own in group_by_target(labels).items():
        case = run.read_case(target)
        limits = run.find_limits(dataset, case.exchange.sample, metric) if case else []
        if case is not None and limits:
            cells[_place(case, own, limits)] += 1
            general |= {(limit.min, limit.max) for limit in limits if limit.slice is None}
    if not cells:
        return None
    lowest = [low for low, _ in general if low is not None]
    highest = [high for _, high in general if high is not None]
    return LabelConfusion(min=max(lowest, default=None), max=min(highest, default=None), **cells)


def _place(case: Case, labels: Sequence[Label], limits: Sequence[Threshold]) -> str:
    """Return the cell of a score: a field of LabelConfusion."""

    def passes(value: float) -> bool:
        return all(limit.holds(value) for limit in limits)

    value = case.score.value if case.score else None
    sides = {passes(one.implied_value) for one in labels if one.implied_value is not None}
    if not sides or value is None:
        return "unknown"
    if len(sides) > 1:
        return "split"
    (people,) = sides
    if people == passes(value):
        return "both_pass" if people else "both_fail"
    return "only_people_pass" if people else "only_metric_passes"
