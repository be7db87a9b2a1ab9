"""Custom metrics defined by a user's function: `{name: cites, scorer: module:function}`.

The function is in a module beside the manifest and takes an Exchange (evalspec.model). It may be sync or async. Its
result is read like that of any metric (`metrics.functions.to_score`). Sync functions run in threads, so one that waits
does not block the run. An exception is recorded on the score of that sample.
"""

from pathlib import Path

from evalspec.base.errors import MetricError
from evalspec.inputs.manifest.metric_schema import MetricEntry
from evalspec.inputs.user_code.calls import UserCode, check_target
from evalspec.model import Direction, Exchange, Score
from evalspec.scoring.metrics.base import MetricDefinition
from evalspec.scoring.metrics.functions import to_storable_score


def define_scorer(entry: MetricEntry, folder: Path) -> MetricDefinition:
    """Return the metric of an entry with a `scorer`. The module is imported at the first score."""
    return MetricDefinition(
        name=entry.name,
        summary=f"Your own function {entry.scorer}.",
        engine="your own",
        build=lambda _context: OwnScorer(entry.scorer or "", folder),
        direction=Direction(entry.direction or "higher"),
        bounds=entry.range or (None, None),
        scores_answers=False,  # unknown: the function may read only the ranking
    )


def check_scorer(entry: MetricEntry, folder: Path) -> list[str]:
    """Return the reasons why the function of an entry cannot be found. The module is read, not executed."""
    return check_target(folder, entry.scorer or "")


class OwnScorer:
    """Scores an exchange with the function `module:function` of a folder."""

    def __init__(self, scorer: str, folder: Path) -> None:
        self._code = UserCode(scorer, folder, MetricError)

    async def __call__(self, exchange: Exchange) -> Score:
        """Return the score of an exchange.

        Raises:
            MetricError: the function could not be imported, raised an exception, or did not return a score.
        """
        function = await self._code.load_aside()
        if not callable(function):
            raise MetricError(f"{self._code.target} is not a function")
        return to_storable_score(await self._code.call(function, exchange))
