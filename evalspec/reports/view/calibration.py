"""The views of calibrations: how a judge agrees with people, what that says about other runs, how stable it is."""

from collections.abc import Iterator

from evalspec.base.plural import counted
from evalspec.model.calibrations import (
    AppliedCalibration,
    Disagreement,
    JudgeCalibration,
    MetricCalibration,
    MetricStability,
    Stability,
    TransportedShare,
)
from evalspec.model.labels import LabelConfusion, LabelShare
from evalspec.reports.view.agreement import render_decimal, render_percent, render_percents
from evalspec.reports.view.parts import (
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
from evalspec.verdict.wording import UNKNOWN

_SHOWN_ONLY = "these shares decide no threshold, because they assume that the judge errs as it did then"
_OF_STABILITY = (
    "flips: share of the pairs of grades of one reply that are on different sides of the threshold",
    "judge's part: of the variance of a single grade",
    "grades needed: per reply, so that the judge has at most 10 % of the variance of the mean",
    "the order of answers matters only to `preference`, which asks in both orders",
)
_MOST_DISAGREEMENTS = 50
_REMARKS = Column(wrap=Wrap.WORDS, aside=True)


def build_calibration_view(found: JudgeCalibration) -> View:
    """Return the view of a calibration."""
    headline = (cell(*name(found.run)), cell(counted(sum(one.labels for one in found.metrics), "blind random label")))
    return View(headline, sections=tuple(_build_metric(found.run, one) for one in found.metrics))


def build_application_view(found: AppliedCalibration) -> View:
    """Return the view of a calibration that is applied to another run."""
    headline = (cell(*name(found.run)), cell("corrected, if the judge errs as it did on ", *name(found.calibration)))
    columns = (names("metric"), *numbers("replies", "judge", "corrected"), Column("95 % interval"), _REMARKS)
    table = Table(columns, tuple(map(_build_transported, found.metrics)))
    return View(headline, sections=(_wrap("Share of good replies", table),), notes=(quiet(_SHOWN_ONLY),))


def build_stability_view(found: Stability) -> View:
    """Return the view of how stable the judge of a run is."""
    columns = (names("metric"), *numbers("replies", "flips"), Column("95 % interval"))
    table = Table(
        (*columns, *numbers("judge's part", "grades needed"), _REMARKS), tuple(map(_build_stable, found.metrics))
    )
    section = _wrap("Grades of the same replies", table)
    return View((cell(*name(found.run)),), sections=(section,), notes=tuple(map(quiet, _OF_STABILITY)))


def _wrap(title: str, table: Table) -> Section:
    return Section("judge", (title,), (table,), "the table of the judge")


def _name_metric(dataset: str, metric: str) -> Words:
    return (*name(dataset), ": ", *name(metric))


def _build_metric(run: str, one: MetricCalibration) -> Section:
    lines = tuple(_list_lines(one))
    confusion = (_build_confusion(one.confusion),) if one.confusion else ()
    parts = lines if one.reason else (*confusion, _build_measures(one), *lines, *_list_wrong(run, one))
    judge = one.identity.get("judge")
    about = (cell(counted(one.labels, "label")), *((cell("judge ", *name(judge)),) if judge else ()))
    title = _name_metric(one.dataset, one.metric)
    return Section("dataset", title, parts, "the calibration of a metric", about)


def _build_measures(one: MetricCalibration) -> Table:
    bias, kappa = (
        " – ".join(map(render_decimal, ends)) if ends else UNKNOWN for ends in (one.bias_interval, one.kappa_interval)
    )
    rows = (
        _build_share("sensitivity", one.sensitivity, "of the replies that people call good, the judge calls good"),
        _build_share("specificity", one.specificity, "of the replies that people call bad, the judge calls bad"),
        _build_row("bias", render_decimal(one.bias), bias, "mean of judge − people"),
        _build_row("kappa", render_decimal(one.kappa), kappa, "weighted by squared differences"),
    )
    return Table((Column("measure"), *numbers("value"), Column("95 % interval"), _REMARKS), rows)


def _build_share(what: str, share: LabelShare, said: str) -> Row:
    remark = share.unknown or f"{said} ({share.labelled:,})"
    return _build_row(what, render_percent(share.value), render_percents(share.interval), remark)


def _build_row(what: str, value: str, interval: str, said: str) -> Row:
    tone = Tone.WARN if value == UNKNOWN else Tone.QUIET
    return row(cell(what), cell(value), cell(interval, tone=Tone.QUIET), cell(said, tone=tone))


def _list_lines(one: MetricCalibration) -> Iterator[Line]:
    if one.reason:
        yield Line(("unknown: ", *prose(one.reason)), tone=Tone.WARN)
    if one.best:
        best = one.best
        shares = (best.present, best.agreement, best.cross_validated, best.lost)
        present, agreement, validated, lost = map(render_percent, shares)
        yield quiet(
            f"they agree on {present} of the replies; with the judge's threshold at {best.value:.4g} on {agreement}, "
            f"cross-validated {validated} ({lost} lost)"
        )
    if one.unscored:
        yield quiet(f"{counted(one.unscored, 'labelled reply', 'labelled replies')} without a score of the judge")
    yield from (quiet(*prose(note)) for note in one.notes)
    yield from (quiet(f"{counted(count, 'label')} left out: {why}") for why, count in one.left_out.items())


def _build_confusion(found: LabelConfusion) -> Table:
    ends = {"≥": found.min, "≤": found.max}
    limit = " and ".join(f"{sign} {end:g}" for sign, end in ends.items() if end is not None)
    counts = {
        "people: good": (found.both_pass, found.only_people_pass),
        "people: bad": (found.only_metric_passes, found.both_fail),
    }
    rows = (row(cell(who), *(cell(f"{count:,}") for count in own)) for who, own in counts.items())
    return Table((Column(f"good is {limit}"), *numbers("judge: good", "judge: bad")), tuple(rows))


def _list_wrong(run: str, one: MetricCalibration) -> Iterator[Part]:
    if one.disagreements:
        shown = one.disagreements[:_MOST_DISAGREEMENTS]
        columns = (names("they disagree on"), *numbers("judge", "people"), _REMARKS)
        yield Table(columns, tuple(map(_build_disagreement, shown)), more=len(one.disagreements) - len(shown))
        yield quiet("to see one: evalspec show ", *name(run), " ", *sample(shown[0].sample))


def _build_disagreement(one: Disagreement) -> Row:
    attempt = f" attempt {one.attempt}" if one.attempt > 1 else ""
    scores = (cell(f"{value:.4g}") for value in (one.judge, one.people))
    return row(cell(*sample(one.sample), attempt), *scores, cell(*prose(one.reason or ""), tone=Tone.QUIET))


def _build_transported(one: TransportedShare) -> Row:
    missing = f"{counted(one.missing, 'reply', 'replies')} without a score" if one.missing else None
    said = one.reason or "; ".join(filter(None, (one.said, missing, *one.notes)))
    return row(
        cell(*_name_metric(one.dataset, one.metric)),
        *(cell(text) for text in (f"{one.replies:,}", render_percent(one.judge), render_percent(one.value))),
        cell(render_percents(one.interval), tone=Tone.QUIET),
        cell(*prose(said), tone=Tone.WARN if one.reason else Tone.QUIET),
    )


def _build_stable(one: MetricStability) -> Row:
    needed = UNKNOWN if one.repeats_needed is None else f"{one.repeats_needed:,}"
    return row(
        cell(*_name_metric(one.dataset, one.metric)),
        *(cell(text) for text in (f"{one.replies:,}", render_percent(one.flips.value))),
        cell(render_percents(one.flips.interval), tone=Tone.QUIET),
        *(cell(text) for text in (render_percent(one.share), needed)),
        cell("; ".join(one.notes), tone=Tone.QUIET),
    )
