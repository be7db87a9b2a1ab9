"""A metric that is the user's own function: `{name: cites, scorer: module:function}`.

The function stands in a module beside the manifest, is sync or async, takes one Exchange (evalspec.model) and returns
a number, a bool, or None where it does not apply. A sync function runs in a thread, several at once, so that one that
waits does not hold up the run. Whatever it raises is recorded on the score of that sample.
"""

from pathlib import Path
from typing import Any, SupportsFloat

from evalspec.errors import MetricError
from evalspec.manifest.schema import MetricEntry
from evalspec.metrics.base import BuildContext, MetricDefinition, Scorer
from evalspec.model import LARGEST_VALUE, Cause, Direction, Exchange, Score
from evalspec.user_code.calls import UserCode, check_target, describe_value

Bounds = tuple[float | None, float | None]


def define_scorer(entry: MetricEntry, folder: Path) -> MetricDefinition:
    """The metric of an entry with a `scorer`. Its module is imported at the first score, not here."""
    bounds: Bounds = entry.range or (None, None)

    def build(_context: BuildContext) -> Scorer:
        return OwnScorer(entry.scorer or "", folder, bounds)

    return MetricDefinition(
        name=entry.name,
        summary=f"Your own function {entry.scorer}.",
        engine="your own",
        build=build,
        direction=Direction(entry.direction or "higher"),
        bounds=bounds,
        scores_answers=False,  # nobody knows what the function looks at, and it may be the ranking
    )


def check_scorer(entry: MetricEntry, folder: Path) -> list[str]:
    """Why the function of an entry cannot be found: one line each. The module is read, not run."""
    return check_target(folder, entry.scorer or "")


class OwnScorer:
    """Scores an exchange with the function `module:function` of a folder."""

    def __init__(self, scorer: str, folder: Path, bounds: Bounds) -> None:
        self._code = UserCode(scorer, folder, MetricError)
        self._bounds = bounds

    async def __call__(self, exchange: Exchange) -> Score:
        """The score of one exchange.

        Raises:
            MetricError: the function could not be imported, raised, or returned something that is no score.
        """
        function = await self._code.load_aside()
        if not callable(function):
            raise MetricError(f"{self._code.target} is not a function")
        return self._as_score(await self._code.call(function, exchange))

    def _as_score(self, result: Any) -> Score:
        if result is None:
            return Score.not_applicable("the scorer returned None", Cause.OTHER)
        if not isinstance(result, SupportsFloat):
            raise MetricError(f"the scorer returned {describe_value(result)}; it must return a number, a bool or None")
        try:
            value = float(result)
        except (TypeError, ValueError, OverflowError) as error:
            raise MetricError(
                f"the scorer returned {describe_value(result)}, which is not one number: {error}"
            ) from error
        if not abs(value) <= LARGEST_VALUE:
            raise MetricError(f"the scorer returned {value}; it must return a number, a bool or None")
        low, high = self._bounds
        if (low is not None and value < low) or (high is not None and value > high):
            raise MetricError(f"the scorer returned {value:g}, outside its range [{low:g}, {high:g}]")
        return Score.scored(value)
