"""A metric that is the user's own function: `{name: cites, scorer: module:function}`.

The function is in a module beside the manifest, sync or async, and takes one Exchange (evalspec.model). Its result
is read as that of any metric (`metrics.functions.to_score`). A sync function runs in a thread, several at once, so that
one that waits does not hold up the run. Whatever it raises is recorded on the score of that sample.
"""

from pathlib import Path

from evalspec.errors import MetricError
from evalspec.manifest.schema import MetricEntry
from evalspec.metrics.base import MetricDefinition
from evalspec.metrics.functions import to_score
from evalspec.model import Direction, Exchange, Score
from evalspec.user_code.calls import UserCode, check_target


def define_scorer(entry: MetricEntry, folder: Path) -> MetricDefinition:
    """The metric of an entry with a `scorer`. Its module is imported at the first score, not here."""
    return MetricDefinition(
        name=entry.name,
        summary=f"Your own function {entry.scorer}.",
        engine="your own",
        build=lambda _context: OwnScorer(entry.scorer or "", folder),
        direction=Direction(entry.direction or "higher"),
        bounds=entry.range or (None, None),
        scores_answers=False,  # nobody knows what the function looks at, and it may be the ranking
    )


def check_scorer(entry: MetricEntry, folder: Path) -> list[str]:
    """Why the function of an entry cannot be found: one line each. The module is read, not run."""
    return check_target(folder, entry.scorer or "")


class OwnScorer:
    """Scores an exchange with the function `module:function` of a folder."""

    def __init__(self, scorer: str, folder: Path) -> None:
        self._code = UserCode(scorer, folder, MetricError)

    async def __call__(self, exchange: Exchange) -> Score:
        """The score of one exchange.

        Raises:
            MetricError: the function could not be imported, raised, or returned something that is no score.
        """
        function = await self._code.load_aside()
        if not callable(function):
            raise MetricError(f"{self._code.target} is not a function")
        return to_score(await self._code.call(function, exchange))
