"""What people say about the judged scores of a run: the labels that can correct a judge, and why others cannot."""

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from statistics import fmean

from msgspec.structs import replace

from evalspec.base.errors import InvalidInput, Problem
from evalspec.curation.labels.binding import LabelMatch, compute_reply_digest
from evalspec.curation.labels.cases import LabelledRun
from evalspec.curation.labels.current import drop_withdrawn_scores, group_by_target, list_blind_scores
from evalspec.curation.labels.drawing import LabelDesign, list_used_up, read_populations
from evalspec.curation.labels.exchanging import check_suffix, list_unbound, read_lines
from evalspec.curation.labels.files import list_labelled_runs, merge_labels
from evalspec.curation.labels.judged_run import JudgedRun
from evalspec.curation.labels.labelling import explain_value
from evalspec.curation.labels.records import KEYS
from evalspec.model.corrections import DrawKind, PeopleScore, PeopleScores
from evalspec.model.labels import Label, LabelUse, LabelVerdict, Target
from evalspec.runs.store.run_store import RunStore
from evalspec.verdict.outline import DatasetOutline, MetricOutline
from evalspec.verdict.stats.agreement import compute_interval_alpha

Place = tuple[str, int]
"""Sample and attempt of a reply."""

IN_SIGHT = "given with the score in sight"
CHOSEN = "chosen, not drawn at random"
UNSEEDED = "their draw has no seed, so nobody can repeat it"
OUTSIDE = "their score is outside the metric's range"
REPLACED = "two of one person: the first one counts"


def collect_opinions(
    run: JudgedRun, labels: Iterable[Label], metrics: Collection[str] | None = None
) -> tuple[PeopleScores, ...]:
    """Return for each judged metric of each dataset the labels that were given blindly and drawn at random.

    Of several people's labels on a reply, the mean. The probability of a draw is the share of the replies like it that
    were drawn up to now.

    Args:
        run: A run that is open.
        labels: Labels of any run, in any order, replaced and withdrawn ones included.
        metrics: Names. Default: every metric that has a judge.

    Raises:
        StoreError: The run is damaged.
    """
    every = list(labels)
    known = drop_withdrawn_scores(every)
    given = _group_by_metric(known)
    drawn = _group_by_metric(one for one in every if one.is_blind and one.draw.seed is not None)
    return tuple(
        _collect(
            run, dataset, metric.name, given.get((dataset, metric.name), ()), drawn.get((dataset, metric.name), ())
        )
        for dataset, outline in run.outlines.items()
        for metric in outline.metrics
        if (metric.judged if metrics is None else metric.name in metrics)
    )


def _group_by_metric(labels: Iterable[Label]) -> dict[tuple[str, str | None], list[Label]]:
    found: dict[tuple[str, str | None], list[Label]] = {}
    for one in labels:
        found.setdefault((one.dataset, one.metric), []).append(one)
    return found


def _collect(
    run: JudgedRun, dataset: str, metric: str, labels: Sequence[Label], drawn: Sequence[Label]
) -> PeopleScores:
    """Return what people say about one metric. `drawn`: labels of every draw, withdrawn ones included."""
    by_label = [pair for target, own in group_by_target(labels).items() for pair in run.list_matches(target, own)]
    matching = [one for one, match in by_label if match is LabelMatch.COUNTS]
    used = {one.target: one.used_for for one in matching if one.used_for is not None}
    outline = run.find_metric(dataset, metric)
    reasons = [(one, _explain(one, match, used.get(one.target), outline)) for one, match in by_label]
    usable = [one for one, reason in reasons if reason is None]
    counting = list_blind_scores(usable)
    left_out = Counter(reason for one, reason in reasons if reason and one.verdict is not LabelVerdict.WITHDRAWN)
    left_out += Counter({REPLACED: len(usable) - len(counting)})
    used_up = list_used_up(matching)
    by_target = group_by_target(counting)
    opened = _open_runs(run, dataset, metric, counting)
    same = _find_same(run, opened, dataset, metric, counting)
    unchanged = set[Place]().union(*same.values())
    unanswered = {
        place
        for name, place in _list_unanswered(opened, by_target, drawn, used_up)
        if name == run.id or place in unchanged
    }
    frames = _read_frames(run, opened, same, LabelDesign(metric, datasets=(dataset,)), counting, used_up)
    shares = compute_shares(list(frames), {*map(_place, by_target), *unanswered})
    return PeopleScores(
        dataset=dataset,
        metric=metric,
        scores=tuple(_combine(own, shares) for own in by_target.values()),
        unchanged=tuple(sorted(unchanged)),
        unanswered=tuple(sorted(unanswered)),
        left_out=dict(sorted(left_out.items())),
        alpha=compute_interval_alpha([_list_values(own) for own in by_target.values()]),
    )


def _open_runs(run: JudgedRun, dataset: str, metric: str, labels: Iterable[Label]) -> dict[str, JudgedRun]:
    """Return the runs of the store that labels were given on, by their ids, after the run itself."""
    store = RunStore(run.files.root)
    others = {one.run for one in labels} - {run.id}
    opened: dict[str, JudgedRun] = {id: LabelledRun(store, id) for id in sorted(others) if (store.runs / id).is_dir()}
    known = {id: one for id, one in opened.items() if dataset in one.outlines and one.has_metric(dataset, metric)}
    return {run.id: run, **known}


def _find_same(
    run: JudgedRun, opened: Mapping[str, JudgedRun], dataset: str, metric: str, labels: Iterable[Label]
) -> dict[str, set[Place]]:
    """Return for each earlier run with labels the replies that are equal there.

    Of a run that is gone, only the labelled replies are known to be equal.
    """
    found = {id: set(_list_unchanged(run, one, dataset, metric)) for id, one in opened.items() if one is not run}
    for one in labels:
        if one.run != run.id:
            found.setdefault(one.run, set()).add(_place(one.target))
    return found


def _read_frames(
    run: JudgedRun,
    opened: Mapping[str, JudgedRun],
    same: Mapping[str, Collection[Place]],
    design: LabelDesign,
    labels: Sequence[Label],
    used_up: Collection[Target],
) -> Iterator[dict[Place, int]]:
    """Yield the replies that could be drawn in each run with labels, first of the run itself, with their strata.

    Where nothing was drawn within strata, all have the same one.
    """
    for id in (run.id, *same):
        if id not in opened:
            yield dict.fromkeys(same[id], 0)
            continue
        (population,) = read_populations(opened[id], design, used_up)
        is_stratified = any(one.run == id and one.draw.kind is DrawKind.STRATIFIED for one in labels)
        strata = population.stratify() if is_stratified else {0: list(population.judged)}
        places = {_place(target): number for number, own in strata.items() for target in own}
        yield {place: number for place, number in places.items() if id == run.id or place in same[id]}


def compute_shares(frames: Sequence[Mapping[Place, int]], drawn: Collection[Place]) -> dict[Place, float]:
    """Return for each drawn reply which share of those like it was drawn: in the same strata of the same runs.

    Whatever the order of draws, such replies are a simple random sample of those like them, so only their number
    counts. Labels of all replies have equal weights, and their mean is that of the replies.

    Args:
        frames: The stratum of each reply that could be drawn in a run; the first is the run whose mean is estimated.
        drawn: Replies that were drawn, in any of the runs.
    """
    cells = {place: tuple(one.get(place) for one in frames) for place in {*frames[0], *drawn}}
    sizes, taken = Counter(cells.values()), Counter(cells[place] for place in drawn)
    return {place: taken[cells[place]] / sizes[cells[place]] for place in drawn}


def _list_unanswered(
    opened: Mapping[str, JudgedRun],
    labels: Mapping[Target, Sequence[Label]],
    drawn_labels: Iterable[Label],
    used_up: Collection[Target],
) -> Iterator[tuple[str, Place]]:
    """Yield the replies that were drawn and have no label, each with the run on which it was drawn.

    People may have stopped when they liked the result, passed over what was difficult, or withdrawn what they disliked.
    """
    draws: dict[tuple[str, int, bool], dict[Target, Label]] = {}
    for one in (one for one in drawn_labels if one.run in opened and one.target not in used_up):
        name = one.run, one.draw.seed or 0, one.draw.kind is DrawKind.STRATIFIED
        draws.setdefault(name, {})[one.target] = one
    for (run, seed, is_stratified), drawn in draws.items():
        dataset, _, _, metric = next(iter(drawn))
        design = LabelDesign(metric or "", datasets=(dataset,), seed=seed)
        (population,) = read_populations(opened[run], design, used_up)
        for order in population.stratify().values() if is_stratified else [list(population.judged)]:
            waiting = [target for target in order if target not in labels]
            open_ = waiting[: _count_open(order, drawn, labels, is_stratified=is_stratified)]
            yield from ((run, _place(target)) for target in open_)


def _count_open(
    order: Sequence[Target],
    drawn: Mapping[Target, Label],
    labels: Mapping[Target, Sequence[Label]],
    *,
    is_stratified: bool,
) -> int:
    """Return how many replies without a label were drawn: those before the last label, and what the draw still lacks.

    A draw within strata counts whatever was labelled before it, and a random one is the beginning of its order.
    """
    own = [target for target in order if target in drawn]
    if not own:
        return 0
    wanted = round(max(drawn[target].draw.probability or 0.0 for target in own) * len(order))
    passed_over = sum(target not in labels for target in order[: order.index(own[-1])])
    if not is_stratified:
        return max(passed_over, sum(target not in labels for target in order[:wanted]))
    end = max(drawn[target].at for target in own)
    return max(passed_over, wanted - sum(labels[target][0].at <= end for target in order if target in labels))


def _place(target: Target) -> Place:
    return target[1], target[2]


def _explain(label: Label, match: LabelMatch, use: LabelUse | None, metric: MetricOutline) -> str | None:
    """Return why a label corrects nothing; None if it may. `use`: what a label on the same reply helped to choose."""
    if not label.is_blind:
        return IN_SIGHT
    if match is not LabelMatch.COUNTS:
        return str(match)
    if use is not None:
        return f"used to choose a {use}"
    if label.value is not None and explain_value(metric, label.value):
        return OUTSIDE
    if label.draw.kind is DrawKind.CHOSEN or label.draw.probability is None:
        return CHOSEN
    return UNSEEDED if label.draw.seed is None else None


def _combine(labels: Sequence[Label], shares: Mapping[Place, float]) -> PeopleScore:
    last = labels[-1]
    return PeopleScore(
        id=last.sample,
        attempt=last.attempt,
        value=fmean(_list_values(labels)),
        labellers=len(labels),
        run=last.run,
        draw=replace(last.draw, probability=shares[_place(last.target)]),
    )


def _list_values(labels: Iterable[Label]) -> list[float]:
    return [one.value for one in labels if one.value is not None]


def read_label_file(path: Path | str, datasets: Iterable[DatasetOutline] = ()) -> list[Label]:
    """Return the labels of a file, as `labels export` writes it. What they are about is not checked.

    Args:
        path: `.jsonl` or `.csv`.
        datasets: Labels on their metrics have to be possible scores.

    Raises:
        InvalidInput: A line is invalid, or does not say what was judged. Every such line is reported with its place.
    """
    place = Path(path)
    check_suffix(place)
    problems: list[Problem] = []
    lines = list(read_lines(place, str(place), problems))
    problems += [fault for line in lines for fault in list_unbound(line)]
    metrics = {(one.name, metric.key): metric for one in datasets for metric in one.metrics}
    for line in lines:
        metric = metrics.get((line.label.dataset, line.label.metric_key or ""))
        if line.label.value is not None and (outside := explain_value(metric, line.label.value)):
            problems.append(line.fault(*outside, KEYS["value"]))
    if problems:
        raise InvalidInput(problems)
    return [line.label for line in lines]


def find_people(
    store: RunStore, given: Path | None, datasets: Iterable[DatasetOutline] = ()
) -> Callable[[str], tuple[PeopleScores, ...]] | None:
    """Return a function that collects what people say about the scores of a run, by its id; None without any label.

    `given`: a file of labels, beside those of the store. `datasets`: those of the run, if they are known.

    Raises:
        InvalidInput: The file cannot be read, or a line in it is invalid.
        StoreError: The folder of labels cannot be read.
    """
    others = [] if given is None else read_label_file(given, datasets)
    if not others and not list_labelled_runs(store.root):
        return None

    def collect(run: str) -> tuple[PeopleScores, ...]:
        opened = LabelledRun(store, run)
        found = collect_opinions(opened, merge_labels([*opened.files.read_all(), *others]))
        return tuple(one for one in found if one.scores or one.left_out)

    return collect


def _list_unchanged(run: JudgedRun, earlier: JudgedRun, dataset: str, metric: str) -> Iterator[Place]:
    """Yield the replies that are byte-identical to those of an earlier run, to the same sample."""
    for sample, attempts in run.list_answered(dataset):
        for number, _ in attempts:
            target = dataset, sample.id, number, metric
            cases = [one.read_case(target) for one in (run, earlier)]
            digests = {case and (case.exchange.sample.digest, compute_reply_digest(case.exchange)) for case in cases}
            if len(digests) == 1 and all(one and None not in one for one in digests):
                yield sample.id, number
