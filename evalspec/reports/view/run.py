"""The view of a run: verdict and reasons, comparison with the baseline, datasets, notes."""

from collections.abc import Iterator, Sequence

from evalspec.base.plural import counted
from evalspec.model import ComparedWith, JudgeUsage, RegressionOutcome, Run, VerdictStatus, describe_reuse
from evalspec.reports.affected_samples import find_failure_causes
from evalspec.reports.view.curation import build_gold
from evalspec.reports.view.dataset import build_dataset, build_worst
from evalspec.reports.view.failures import FailureTexts
from evalspec.reports.view.parts import (
    TONES,
    Cell,
    Column,
    Line,
    Row,
    Section,
    Table,
    Tone,
    View,
    Wrap,
    cell,
    name,
    names,
    numbers,
    prose,
    quiet,
    row,
)
from evalspec.reports.worst import list_worst
from evalspec.verdict.wording import (
    MARKS,
    mark_regression,
    render_delta,
    render_known,
    render_usage,
    render_usage_by_metric,
)

_IN_WORDS = {
    VerdictStatus.FAIL: "broken",
    VerdictStatus.INCOMPLETE: "undecided",
    VerdictStatus.PASS: "met",
    VerdictStatus.NOT_GATED: "not measured",
}
_REGRESSION_COLUMNS = (
    names("metric"),
    *numbers("baseline", "candidate", "delta", "pairs"),
    Column(),
    Column(wrap=Wrap.WORDS, aside=True),
)


def build_view(run: Run, texts: FailureTexts | None = None) -> View:
    """Return the content of every report for people on a run. `texts`: of failed samples to show in full."""
    reuse = describe_reuse(run.fingerprint)
    sections = [_build_regressions(run.regressions)] if run.regressions else []
    return View(
        tuple(build_headline(run)),
        mark=MARKS[run.verdict],
        lead=(*_list_measurement(run), *([Line(prose(reuse))] if reuse else [])),
        reasons=tuple(prose(reason) for reason in run.reasons),
        sections=(*sections, *_build_datasets(run, texts or {}), *_build_gold_sets(run)),
        notes=tuple(_notes(run, reuse)),
    )


def _list_measurement(run: Run) -> Iterator[Line]:
    """Yield what changed in the measurement since the baseline, or that nothing did."""
    for change in run.measurement:
        yield Line(("measurement: ", *prose(change.render())), tone=Tone.WARN)
    if run.regressions and not run.measurement and all(one.is_compared for one in run.regressions):
        yield Line(("measured as in the baseline",), tone=Tone.QUIET)


def _build_datasets(run: Run, texts: FailureTexts) -> Iterator[Section]:
    """Yield the sections of the datasets. Parts of those with which nothing is wrong are minor."""
    broken = find_broken(run)
    is_explained = run.verdict not in (VerdictStatus.FAIL, VerdictStatus.INCOMPLETE) or any(broken.values())
    for dataset, blamed in zip(run.datasets, find_failure_causes(run), strict=True):
        is_minor = is_explained and bool(dataset.thresholds) and not (broken[dataset.name] or blamed)
        worst = build_worst(dataset, list_worst(dataset, blamed), texts, is_minor=is_minor)
        yield build_dataset(dataset, broken[dataset.name], worst)


def find_broken(run: Run) -> dict[str, set[str]]:
    """Return the metrics of each dataset that are worse than a limit or the baseline, or undecided."""
    outcomes = [(dataset.name, limit.metric, limit.status) for dataset in run.datasets for limit in dataset.thresholds]
    outcomes += [(one.dataset, one.metric, one.status) for one in run.regressions if one.metric]
    broken: dict[str, set[str]] = {dataset.name: set() for dataset in run.datasets}
    for dataset, metric, status in outcomes:
        if status in (VerdictStatus.FAIL, VerdictStatus.INCOMPLETE) and dataset in broken:
            broken[dataset].add(metric)
    return broken


def build_headline(run: Run, *, announce: bool = True) -> Iterator[Cell]:
    """Yield verdict, agent (`agent.name` of the fingerprint), outcomes of the thresholds, and PARTIAL if it applies.

    `announce`: introduce the reasons, if they follow.
    """
    yield cell(run.verdict.replace("_", " "), tone=TONES[run.verdict])
    if agent := run.fingerprint.agent_name:
        yield cell(*name(str(agent)))
    yield cell(f"{_say_thresholds(run)}{_announce_reasons(run) if announce else ''}")
    if run.partial:
        yield cell("PARTIAL", tone=Tone.WARN)


def _say_thresholds(run: Run) -> str:
    """Return the outcomes of the thresholds: `2 of 7 thresholds broken, 1 undecided`. Met ones if none is wrong.

    Failed comparisons with the baseline are counted apart.
    """
    if shard := run.fingerprint.shard:
        return f"part {shard.number} of {shard.of}, no threshold is checked"
    worse = sum(one.status is VerdictStatus.FAIL for one in run.regressions)
    compared = f", {worse} worse than the baseline" if worse else ""
    statuses = [threshold.status for dataset in run.datasets for threshold in dataset.thresholds]
    if not statuses:
        return f"no thresholds{compared}"
    count_of = {status: statuses.count(status) for status in _IN_WORDS}
    if count_of[VerdictStatus.FAIL] or count_of[VerdictStatus.INCOMPLETE]:
        del count_of[VerdictStatus.PASS]
    counts = [(count, _IN_WORDS[status]) for status, count in count_of.items() if count]
    (first, word), *others = counts
    total = counted(len(statuses), "threshold")
    return ", ".join([f"{first} of {total} {word}", *(f"{count} {word}" for count, word in others)]) + compared


def _announce_reasons(run: Run) -> str:
    """Return an introduction of the reasons if no threshold decides the verdict: the baseline or `minPassRate` does."""
    statuses = {threshold.status for dataset in run.datasets for threshold in dataset.thresholds}
    decided = run.verdict in (VerdictStatus.FAIL, VerdictStatus.INCOMPLETE)
    return f"; {run.verdict} because:" if run.reasons and decided and run.verdict not in statuses else ""


def _build_gold_sets(run: Run) -> Iterator[Section]:
    for dataset in run.datasets:
        if dataset.gold is not None:
            yield build_gold(dataset.name, dataset.gold)


def _build_regressions(regressions: Sequence[RegressionOutcome]) -> Section:
    table = Table(_REGRESSION_COLUMNS, tuple(map(_regression_row, regressions)))
    return Section("baseline", ("Against the baseline",), (table,), "the comparison with the baseline", rank=1)


def _regression_row(found: RegressionOutcome) -> Row:
    metric = found.metric or ""
    place = (*name(found.dataset), ": ") if found.dataset else ()
    what = (*name(metric), " (anchor)" if found.against is ComparedWith.ANCHOR else "") if metric else (found.title,)
    return row(
        cell(*place, *what),
        cell(render_known(metric, found.baseline)),
        cell(render_known(metric, found.candidate)),
        cell(render_delta(metric, found.delta)),
        cell(f"{found.pairs:,}" if metric else ""),
        cell(tone=TONES[found.status], mark=mark_regression(found)),
        cell(*(prose(found.reason) if found.reason else ())),
    )


def _notes(run: Run, reuse: str | None) -> Iterator[Line]:
    if run.judge_usage:
        yield quiet(render_usage(sum(run.judge_usage.values(), JudgeUsage()), [*run.judge_costs.values()]))
    by_metric = render_usage_by_metric(run.judge_usage, run.judge_costs)
    if len(by_metric) > 1:
        said = (("; " if place else "", *name(metric), f" {used}") for place, (metric, used) in enumerate(by_metric))
        yield quiet("judge by metric: ", *(piece for words in said for piece in words if piece))
    for note in run.notes:
        if note != reuse:
            yield quiet("note: ", *prose(note))
    if not run.has_texts:
        yield Line(("questions, answers and reasons are omitted (--no-content)",), detail=True)
    yield Line(("run ", *name(run.id), f", exit code {int(run.exit_code)}"), detail=True)
