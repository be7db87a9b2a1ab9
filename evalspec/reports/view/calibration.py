"""The views of calibrations: how a judge agrees with people, what that says about other runs, how stable it is."""

from collections.abc import Iterator

from evalspec.base.plural import counted
from evalspec.model.base import Interval
from evalspec.model.calibrations import (
    Application,
    Calibration,
    Disagreement,
    MetricCalibration,
    MetricStability,
    Stability,
    TransportedShare,
)
from evalspec.model.labels import LabelConfusion, LabelShare
from evalspec.reports.view.agreement import render_decimal, render_percent, render_percents
from evalspec.reports.view.parts import (
    Cell,
    Column,
    Line,
    Part,
    Row,
    Section,
    Table,
    Tone,
    View,
    Words,
    Wrap,
    cell,
    name,
    names,
    numbers,
    prose,
    quiet,
    row,
    sample,
)

_MOST_DISAGREEMENTS = 50
_NO_SWAP = "order is not swapped: no metric here compares two answers"
_SHOWN_ONLY = "shown, and never decides a threshold: nobody labelled this run"


def build_calibration_view(found: Calibration) -> View:
    """Return the view of a calibration."""
    headline = (cell(*name(found.run)), cell(counted(sum(one.labels for one in found.metrics), "blind random label")))
    return View(headline, sections=tuple(_build_metric(found.run, one) for one in found.metrics))


def build_application_view(found: Application) -> View:
    """Return the view of a calibration that is applied to another run."""
    headline = (cell(*name(found.run)), cell("if the judge errs as it did on ", *name(found.calibration)))
    columns = (names("metric"), *numbers("replies", "judge: good", "corrected"), Column("95 % interval"), _wide())
    table = Table(columns, tuple(_build_transported(one) for one in found.metrics))
    section = Section("applied", ("Share of good replies",), (table,), "the corrected shares")
    return View(headline, sections=(section,), notes=(quiet(_SHOWN_ONLY),))


def build_stability_view(found: Stability) -> View:
    """Return the view of how stable the judge of a run is."""
    columns = (
        names("metric"),
        *numbers("replies", "flips"),
        Column("95 % interval"),
        *numbers("judge's variance", "repeats needed"),
        _wide(),
    )
    table = Table(columns, tuple(_build_stable(one) for one in found.metrics))
    notes = (
        "flips: share of the pairs of grades of one reply that are on different sides of the threshold",
        "repeats needed: grades per reply with which the judge has at most 10 % of the variance of the mean",
        _NO_SWAP,
    )
    section = Section("stability", ("Grades of the same replies",), (table,), "how stable the grades are")
    return View((cell(*name(found.run)),), sections=(section,), notes=tuple(map(quiet, notes)))


def _wide() -> Column:
    return Column(wrap=Wrap.WORDS, aside=True)


def _name_metric(dataset: str, metric: str) -> Words:
    return (*name(dataset), ": ", *name(metric))


def _build_metric(run: str, one: MetricCalibration) -> Section:
    parts = tuple(_list_lines(one)) if one.reason else (_build_measures(one), *_list_lines(one), *_list_wrong(run, one))
    judge = one.identity.get("judge")
    about = (cell(counted(one.labels, "label")), *((cell("judge ", *name(judge)),) if judge else ()))
    title = _name_metric(one.dataset, one.metric)
    return Section(f"calibration-{one.dataset}-{one.metric}", title, parts, "the calibration of a metric", about)


def _build_measures(one: MetricCalibration) -> Table:
    columns = (Column("measure"), *numbers("value"), Column("95 % interval"), *numbers("labels"), _wide())
    rows = (
        _build_share("sensitivity", one.sensitivity, "of the replies that people call good, the judge calls good"),
        _build_share("specificity", one.specificity, "of the replies that people call bad, the judge calls bad"),
        _build_number("bias", one.bias, one.bias_interval, one, "mean of judge − people"),
        _build_number("kappa", one.kappa, one.kappa_interval, one, "weighted by squared differences"),
    )
    return Table(columns, rows)


def _build_share(what: str, share: LabelShare, said: str) -> Row:
    unknown = share.unknown is not None
    return row(
        cell(what),
        cell(render_percent(share.value)),
        cell(render_percents(share.interval), tone=Tone.QUIET),
        cell(f"{share.labelled:,}"),
        cell(share.unknown or said, tone=Tone.WARN if unknown else Tone.QUIET),
    )


def _build_number(what: str, value: float | None, interval: Interval | None, one: MetricCalibration, said: str) -> Row:
    return row(
        cell(what),
        cell(render_decimal(value)),
        cell(_render_interval(interval), tone=Tone.QUIET),
        cell(f"{one.labels - one.unscored:,}"),
        cell(said, tone=Tone.QUIET),
    )


def _render_interval(interval: Interval | None) -> str:
    return " – ".join(map(render_decimal, interval)) if interval else render_decimal(None)


def _list_lines(one: MetricCalibration) -> Iterator[Line]:
    if one.reason:
        yield Line(("unknown: ", *prose(one.reason)), tone=Tone.WARN)
    if one.confusion:
        yield _build_confusion(one.confusion)
    if one.best:
        yield quiet(
            f"agree on {one.best.present:.0%} at this threshold; best at {one.best.value:.4g}: "
            f"{one.best.agreement:.0%}, cross-validated {one.best.cross_validated:.0%} "
            f"({one.best.lost:.0%} lost, {one.best.folds} folds)"
        )
    if one.unscored:
        yield quiet(f"{counted(one.unscored, 'labelled reply', 'labelled replies')} without a score of the judge")
    yield from (quiet(*prose(note)) for note in one.notes)
    yield from (quiet(f"{counted(count, 'label')} left out: ", *prose(why)) for why, count in one.left_out.items())


def _build_confusion(found: LabelConfusion) -> Line:
    ends = {"≥": found.min, "≤": found.max}
    limit = " and ".join(f"{sign} {end:g}" for sign, end in ends.items() if end is not None)
    items = (
        f"{found.both_pass:,} good for judge and people",
        f"{found.both_fail:,} bad for both",
        f"{found.only_metric_passes:,} good only for the judge",
        f"{found.only_people_pass:,} good only for people",
    )
    return quiet(f"good is {limit}", items=[(item,) for item in items])


def _list_wrong(run: str, one: MetricCalibration) -> Iterator[Part]:
    if not one.disagreements:
        return
    columns = (names("they disagree"), *numbers("judge", "people"), Column("reason", wrap=Wrap.WORDS, aside=True))
    shown = one.disagreements[:_MOST_DISAGREEMENTS]
    yield Table(columns, tuple(map(_build_disagreement, shown)), more=len(one.disagreements) - len(shown))
    yield quiet("see one: evalspec show ", *name(run), " ", *sample(one.disagreements[0].sample))


def _build_disagreement(one: Disagreement) -> Row:
    attempt = f" attempt {one.attempt}" if one.attempt > 1 else ""
    return row(
        cell(*sample(one.sample), attempt),
        cell(f"{one.judge:.4g}"),
        cell(f"{one.people:.4g}"),
        cell(*prose(one.reason or ""), tone=Tone.QUIET),
    )


def _build_transported(one: TransportedShare) -> Row:
    lines = (
        one.said,
        f"{counted(one.missing, 'reply', 'replies')} without a score" if one.missing else None,
        *one.notes,
    )
    said = one.reason or "; ".join(filter(None, lines))
    return row(
        cell(*_name_metric(one.dataset, one.metric)),
        cell(f"{one.replies:,}"),
        cell(render_percent(one.judge)),
        cell(render_percent(one.value)),
        cell(render_percents(one.interval), tone=Tone.QUIET),
        cell(*prose(said), tone=Tone.WARN if one.reason else Tone.QUIET),
    )


def _build_stable(one: MetricStability) -> Row:
    unknown = () if one.replies else ("each reply has one grade",)
    said = "; ".join((*unknown, *one.notes))
    return row(
        cell(*_name_metric(one.dataset, one.metric)),
        cell(f"{one.replies:,}"),
        cell(render_percent(one.flips.value)),
        cell(render_percents(one.flips.interval), tone=Tone.QUIET),
        cell(render_percent(one.share)),
        _count(one.repeats_needed),
        cell(said, tone=Tone.QUIET),
    )


def _count(number: int | None) -> Cell:
    return cell(render_decimal(None) if number is None else f"{number:,}")
