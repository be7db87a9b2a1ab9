"""A metric that is the user's own function: `{name: cites, scorer: module:function}`.

The function stands in a module beside the manifest, is sync or async, takes one Exchange (evalspec.records) and returns
a number, a bool, or None where it does not apply. A sync function runs in a thread, several at once, so that one that
waits does not hold up the run. Whatever it raises is recorded on the score of that sample.
"""

import inspect
import math
import traceback
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Lock
from typing import Any, SupportsFloat

from evalspec.errors import MetricError
from evalspec.manifest.schema import MetricEntry
from evalspec.metrics.base import BuildContext, MetricDefinition, Scorer
from evalspec.metrics.user_module import find_module_problems, import_module
from evalspec.records import Direction, Exchange, Score

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
    )


def find_scorer_problems(entry: MetricEntry, folder: Path) -> list[str]:
    """Why the function of an entry cannot be found: one line each. The module is read, not run."""
    module, _, function = (entry.scorer or "").partition(":")
    return find_module_problems(folder, module, function)


class OwnScorer:
    """Scores an exchange with the function `module:function` of a folder."""

    def __init__(self, scorer: str, folder: Path, bounds: Bounds) -> None:
        self._module, _, self._name = scorer.partition(":")
        self._folder = folder
        self._bounds = bounds
        self._loading = Lock()
        self._function: Callable[[Exchange], Any] | None = None
        self._failure: str | None = None

    async def __call__(self, exchange: Exchange) -> Score:
        """The score of one exchange.

        Raises:
            MetricError: the function could not be imported, raised, or returned something that is no score.
        """
        import asyncio

        function = await asyncio.to_thread(self._load) if self._function is None else self._function
        if inspect.iscoroutinefunction(function):
            return self._as_score(await self._finish(function(exchange)))
        result = await asyncio.to_thread(self._call, function, exchange)
        return self._as_score(await self._finish(result) if inspect.isawaitable(result) else result)

    def _load(self) -> Callable[[Exchange], Any]:
        """Import the module once; a failure is remembered too, so that it is not run again for each sample."""
        with self._loading:
            if self._failure is not None:
                raise MetricError(self._failure)
            if self._function is None:
                try:
                    self._function = self._import()
                except MetricError as error:
                    self._failure = str(error)
                    raise
            return self._function

    def _import(self) -> Callable[[Exchange], Any]:
        with _failures_as_metric_errors(self._folder):
            function = getattr(import_module(self._folder, self._module), self._name)
        if not callable(function):
            raise MetricError(f"{self._module}:{self._name} is not a function")
        return function  # type: ignore[no-any-return]

    def _call(self, function: Callable[[Exchange], Any], exchange: Exchange) -> Any:
        with _failures_as_metric_errors(self._folder):
            return function(exchange)

    async def _finish(self, result: Awaitable[Any]) -> Any:
        with _failures_as_metric_errors(self._folder):
            return await result

    def _as_score(self, result: Any) -> Score:
        if result is None:
            return Score.not_applicable("the scorer returned None")
        if not isinstance(result, SupportsFloat):
            raise MetricError(f"the scorer returned {_shown(result)}; it must return a number, a bool or None")
        try:
            value = float(result)
        except (TypeError, ValueError, OverflowError) as error:
            raise MetricError(f"the scorer returned {_shown(result)}, which is not one number: {error}") from error
        if not math.isfinite(value):
            raise MetricError(f"the scorer returned {value}; it must return a number, a bool or None")
        low, high = self._bounds
        if (low is not None and value < low) or (high is not None and value > high):
            raise MetricError(f"the scorer returned {value:g}, outside its range [{low:g}, {high:g}]")
        return Score.scored(value)


@contextmanager
def _failures_as_metric_errors(folder: Path) -> Iterator[None]:
    """What the user's code raises, as a MetricError. SystemExit too: a scorer must not choose the run's exit code."""
    try:
        yield
    except (Exception, SystemExit) as error:
        kind, message = type(error).__name__, str(error)
        described = f"{kind}: {message}" if message else kind
        raise MetricError(described + _own_place(error, folder)) from error


def _own_place(error: BaseException, folder: Path) -> str:
    """`, cites.py:12`: the innermost line of the user's own code, or nothing where it was not reached."""
    root = folder.resolve()
    place = ""
    for frame in traceback.extract_tb(error.__traceback__):
        file = Path(frame.filename)
        if file.is_relative_to(root) and "site-packages" not in file.parts:
            place = f", {file.relative_to(root)}:{frame.lineno}"
    return place


def _shown(value: Any) -> str:
    kind = type(value).__name__
    return f"the {kind} {value[:60]!r}" if isinstance(value, str) else f"a {kind}"
