"""What a run may use at most."""

from msgspec import Struct


class SpendingLimits(Struct, frozen=True):
    """What a run may use at most, over all its sessions; None: any amount.

    `max_cost`: in the unit of the judge's price. `max_judge_calls`: requests, also failed ones. `max_tokens`: input and
    output. `max_time`: seconds in which the run is worked on.
    """

    max_cost: float | None = None
    max_judge_calls: int | None = None
    max_tokens: int | None = None
    max_time: float | None = None


def name_option(name: str) -> str:
    """Return the option of a limit."""
    return f"--{name.replace('_', '-')}"
