"""The view of a run whose agent gave no usable reply at all, for one reason: the reason instead of empty tables."""

from evalspec.base.foreign_text import inert
from evalspec.base.plural import counted
from evalspec.model import NOT_ASKED, Run, VerdictStatus
from evalspec.reports.view.parts import TONES, Tone, View, cell, name, prose
from evalspec.verdict.wording import MARKS

_DOWN = " is down: "


def build_outage_view(run: Run) -> View | None:
    """Return the view, or None if there is a reply, more than one reason why there is none, or a broken limit."""
    samples = [sample for dataset in run.datasets for sample in dataset.samples]
    causes = {(sample.error or "").removeprefix(NOT_ASKED) for sample in samples}
    if (
        run.verdict is VerdictStatus.FAIL
        or not samples
        or any(dataset.answered for dataset in run.datasets)
        or len(causes) > 1
        or not all(causes)
    ):
        return None
    agent = run.fingerprint.agent_name
    return View(
        (
            cell(run.verdict.replace("_", " "), tone=TONES[run.verdict]),
            *([cell(*name(str(agent)))] if agent else []),
            cell(f"{_say_down(run)}no reply to {counted(len(samples), 'sample')}", tone=Tone.FAIL),
            *([cell("PARTIAL", tone=Tone.WARN)] if run.partial else []),
        ),
        mark=MARKS[run.verdict],
        reasons=tuple(prose(cause) for cause in causes),
    )


def _say_down(run: Run) -> str:
    """Return `the agent is down, ` if the run stopped asking it."""
    down = (note.partition(_DOWN) for note in run.notes)
    return next((f"{inert(named)} is down, " for named, found, _ in down if found), "")


def is_outage(run: Run) -> bool:
    """Return whether the agent gave no usable reply at all, for one reason."""
    return build_outage_view(run) is not None
