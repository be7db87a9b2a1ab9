"""The view of the labels of a run: how people agree with each other, and with the metrics."""

from collections.abc import Iterator, Mapping

from evalspec.base.plural import counted
from evalspec.model import Agreement
from evalspec.model.labels import LabelConfusion, LabelShare, LabelStats, MetricLabels, ReplyLabels
from evalspec.reports.view.agreement import build_agreement_table, render_percent, render_percents
from evalspec.reports.view.parts import Cell, Part, Section, View, cell, name, prose, quiet

_CELLS = {
    "both_pass": "metric and people pass",
    "both_fail": "metric and people fail",
    "only_metric_passes": "only the metric passes",
    "only_people_pass": "only people pass",
    "split": "people are split",
    "unknown": "unknown: they disagree and give no value",
}


def build_labels_view(stats: LabelStats) -> View:
    """Return the view of what labels say about a run."""
    labels = sum(stats.labellers.values())
    headline = (cell(*name(stats.run)), cell(counted(labels, "label")))
    notes = tuple(quiet(*prose(line)) for line in _list_notes(stats))
    sections = [_build_replies(one) for one in stats.replies] + [_build_metric(one) for one in stats.metrics]
    return View(headline, sections=tuple(sections), notes=notes)


def _build_replies(one: ReplyLabels) -> Section:
    title = (*name(one.dataset), ": replies")
    parts = _build_parts("good", one.good, one.agreement)
    return Section(f"replies-{one.dataset}", title, tuple(parts), "the labels on replies", (_say_count(one.good),))


def _build_metric(one: MetricLabels) -> Section:
    title = (*name(one.dataset), ": ", *name(one.metric))
    judge = (cell("judge ", *name(one.judge)),) if one.judge else ()
    parts = [*_build_parts("agree with the score", one.agree, one.agreement), *_build_confusion(one.confusion)]
    scored = (cell(f"{one.rated:,} with people's own scores"),) if one.rated else ()
    about = (_say_count(one.agree), *scored, *judge)
    return Section(f"scores-{one.dataset}-{one.metric}", title, tuple(parts), "the labels on scores", about)


def _build_parts(said: str, share: LabelShare, agreement: tuple[Agreement, ...]) -> Iterator[Part]:
    interval = f"95 % interval {render_percents(share.interval)}" if share.interval else f"unknown: {share.unknown}"
    yield quiet(f"{said}: {render_percent(share.value)} ({interval})")
    yield build_agreement_table([(one, one.raters, one.units) for one in agreement], "samples")


def _build_confusion(found: LabelConfusion | None) -> Iterator[Part]:
    if found is None:
        return
    ends = {"≥": found.min, "≤": found.max}
    limit = " and ".join(f"{sign} {end:g}" for sign, end in ends.items() if end is not None)
    counts: Mapping[str, int] = {said: getattr(found, key) for key, said in _CELLS.items()}
    items = [(f"{count:,} {said}",) for said, count in counts.items() if count]
    yield quiet(f"at the threshold {limit}" if limit else "at the thresholds of slices", items=items)


def _list_notes(stats: LabelStats) -> Iterator[str]:
    yield "the agreement of people counts only blind labels: those whose labeller could not see the others"
    if stats.hidden:
        yield f"{counted(stats.hidden, 'label')} of others not counted: on what you have not labelled"
    if stats.informed:
        yield f"{counted(stats.informed, 'label')} changed after others could be seen"
    for run, count in stats.carried.items():
        yield f"{counted(count, 'label')} of run {run} counted: reply and score are equal"
    for run, count in stats.reusable.items():
        yield f"{counted(count, 'label')} of run {run} not counted but reusable: another judge or score, known values"
    for reason, count in stats.left_out.items():
        yield f"{counted(count, 'label')} not counted: {reason}"


def _say_count(share: LabelShare) -> Cell:
    return cell(f"{share.labelled:,} labelled")
