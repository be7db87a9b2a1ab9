"""Limits on missing samples."""

from msgspec import Struct

from evalspec.base.plural import counted, pluralize
from evalspec.model import SampleResult

_ROUNDING = 1e-9
"""Tolerance for rounding errors: 0.29 * 100 is slightly below 29."""


def exceeds_share(missing: int, total: int, share: float, *, at_least: int = 1) -> bool:
    """Return whether more of `total` are missing than a share allows.

    A share of 0 allows none. Any other share allows at least `at_least`.
    """
    return missing > (max(at_least, share * total + _ROUNDING) if share else 0)


class LostSamples(Struct, frozen=True):
    """Samples of the baseline that no longer count: those `removed` from the dataset's file, and `edited` ones."""

    removed: tuple[SampleResult, ...] = ()
    edited: tuple[SampleResult, ...] = ()

    def __len__(self) -> int:
        return len(self.removed) + len(self.edited)

    @property
    def samples(self) -> tuple[SampleResult, ...]:
        """All of them."""
        return (*self.removed, *self.edited)

    @property
    def counted(self) -> str:
        """How many are gone, and how many were edited."""
        removed, edited = len(self.removed), len(self.edited)
        gone = f"{counted(removed, 'sample')} of the baseline {pluralize(removed, 'is', 'are')} gone from the dataset"
        changed = f"{counted(edited, 'sample')} {pluralize(edited, 'was', 'were')} edited since the baseline"
        return " and ".join(text for count, text in ((removed, gone), (edited, changed)) if count)

    def describe(self) -> str:
        """Return why they leave a limit undecided."""
        fix = "promote a new baseline, or allow the share with maxRemoved"
        return f"{self.counted}, which could change the outcome: {fix}"
