"""Conclude a shard: its gate stays open, because a part of the samples decides nothing about the run."""

from msgspec.structs import replace

from evalspec.base.plural import counted
from evalspec.inputs.manifest.gate_schema import CiGate
from evalspec.model.fingerprints import Fingerprint
from evalspec.verdict.outline import DatasetOutline, RunOutline

_LEFT_OPEN = "a shard gates nothing: the merged run is checked"


def leave_gate_open(outline: RunOutline) -> RunOutline:
    """Return the outline of a shard without its gate."""
    return replace(outline, policy=CiGate(enabled=False), datasets=tuple(map(_open_limits, outline.datasets)))


def explain_unreached(fingerprint: Fingerprint, unreached: int) -> str | None:
    """Return that a shard is not finished, because attempts could not reach the agent: resuming it makes them again.

    Other failures are results, and the gate of the merged run counts them.
    """
    is_missing = fingerprint.shard is not None and unreached
    return f"{counted(unreached, 'attempt')} could not reach the agent" if is_missing else None


def _open_limits(dataset: DatasetOutline) -> DatasetOutline:
    limits = tuple(replace(limit, reason=limit.reason or _LEFT_OPEN) for limit in dataset.thresholds)
    return replace(dataset, thresholds=limits)
