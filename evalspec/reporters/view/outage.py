"""The view of a run whose agent gave no usable reply at all, for one reason: the reason instead of empty tables."""

from evalspec.model import NOT_ASKED, Run
from evalspec.plural import counted
from evalspec.reporters.view.parts import TONES, Tone, View, cell, name, prose
from evalspec.reporters.wording import MARKS


def build_outage_view(run: Run) -> View | None:
    """Return the view, or None if there is a reply, or more than one reason why there is none."""
    samples = [sample for dataset in run.datasets for sample in dataset.samples]
    causes = {(sample.error or "").removeprefix(NOT_ASKED) for sample in samples}
    if not samples or any(dataset.answered for dataset in run.datasets) or len(causes) > 1 or not all(causes):
        return None
    agent = run.fingerprint.get("agent", {}).get("name")
    return View(
        (
            cell(run.verdict.replace("_", " "), tone=TONES[run.verdict]),
            *([cell(*name(str(agent)))] if agent else []),
            cell(f"no reply to {counted(len(samples), 'sample')}", tone=Tone.FAIL),
        ),
        mark=MARKS[run.verdict],
        reasons=tuple(prose(cause) for cause in causes),
    )


def is_outage(run: Run) -> bool:
    """Return whether the agent gave no usable reply at all, for one reason."""
    return build_outage_view(run) is not None
