"""Score one exchange. This is the only place where an exception of a metric becomes a failed score."""

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from importlib import import_module
from statistics import fmean
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from evalspec.base.errors import InvalidInput, JudgeError, MetricError
from evalspec.base.patterns import CannotCheck
from evalspec.inputs.user_code.calls import describe_exception, ends_the_run
from evalspec.model import Cause, Direction, Exchange, Need, Score, ScoreStatus
from evalspec.model.exchanges import OUT_OF_TIME
from evalspec.runs.planning.draft import needs_of
from evalspec.runs.planning.survey import has
from evalspec.runs.runner.conversing import list_messages
from evalspec.scoring.judge.budget import BudgetSpent
from evalspec.scoring.judge.grading import CURRENT, GradedReply, Grading
from evalspec.scoring.judge.panel import Panel
from evalspec.scoring.metrics.base import METRICS, Metric
from evalspec.verdict.stats import compute_statistic

if TYPE_CHECKING:
    from evalspec.runs.planning.build import Plan
    from evalspec.runs.runner.targets import JobTarget

Keep = Callable[[Mapping[str, Score]], None]
ListGradings = Callable[[], list[Grading]]

_ROUNDING = 1e-9
_PRELOAD_GRACE_SECONDS = 0.3
"""Wait for the first reply before loading the judge's libraries in parallel. An agent that is down is detected in this
time, and then nothing is loaded."""
_OF_TURNS = frozenset({Need.EXPECTED, Need.EXPECTED_TOOLS, Need.CHECKS})
"""What a turn of a script may say of the right reply to it."""


async def score_exchange(
    metrics: Sequence[Metric], exchange: Exchange, keep: Keep = lambda _: None, **settings: Any
) -> dict[str, Score]:
    """Return one score for every metric, by name, in the order of the metrics. Arguments: as of `start_scores`."""
    scores = start_scores(metrics, exchange, keep, **settings)
    return scores if isinstance(scores, dict) else await scores


def start_scores(
    metrics: Sequence[Metric],
    exchange: Exchange,
    keep: Keep,
    *,
    known: Mapping[str, Score] = {},
    judge_repeats: int = 1,
    attempt: tuple[str, int] | None = None,
) -> dict[str, Score] | Awaitable[dict[str, Score]]:
    """Return what `score_exchange` returns, or an awaitable of it if a score has to be waited for.

    `keep`: called with new scores as soon as they exist. Scores that are computed without waiting arrive together. Each
    other score arrives separately, with the scores derived from it. `known`: existing scores. `judge_repeats`: number
    of gradings per reply. `attempt`: name of the dataset and number of the attempt, so that results may be cached.
    """
    scores, exchange = dict(known), add_script(exchange)

    def add(new: Mapping[str, Score]) -> None:
        scores.update(new)
        if new:
            keep(new)

    async def score_turns_first(of_turns: Sequence[Metric]) -> dict[str, Score]:
        add(await _score_turns(of_turns, exchange, judge_repeats, attempt))
        return await score_exchange(metrics, exchange, keep, known=scores, judge_repeats=judge_repeats, attempt=attempt)

    async def finish(waiting: Sequence[Awaitable[None]]) -> dict[str, Score]:
        await asyncio.gather(*waiting)
        return {metric.name: scores[metric.name] for metric in metrics}

    gradings: list[Grading] = []

    def list_gradings() -> list[Grading]:
        if not gradings:  # made once: the scores of a grading share the judge's answers
            judges = max((len(metric.panel.names) for metric in metrics if metric.panel is not None), default=1)
            places = [(repeat, member) for repeat in range(judge_repeats) for member in range(judges)]
            gradings.extend(Grading(_name_reply(exchange, attempt, sum(place)), place[1]) for place in places)
        return gradings

    new_metrics = [metric for metric in metrics if metric.name not in scores]
    if exchange.sample.turns and (of_turns := [metric for metric in new_metrics if is_of_turns(metric, exchange)]):
        return score_turns_first(of_turns)
    at_once: dict[str, Score] = {}
    waiting = []
    for root, members in _families(new_metrics):
        started = scores.get(root.name) or _start(root, exchange, list_gradings)
        if isinstance(started, Score):
            at_once |= _derive(members, started)
        else:
            waiting.append(_finish_family(members, started, add))
    add(at_once)
    return finish(waiting) if waiting else {metric.name: scores[metric.name] for metric in metrics}


async def _score_turns(
    metrics: Sequence[Metric], exchange: Exchange, judge_repeats: int, attempt: tuple[str, int] | None
) -> dict[str, Score]:
    """Return the score of a conversation on each metric, from the scores of its turns."""

    async def score(turn: Exchange) -> Mapping[str, Score]:
        wanted = [metric for metric in metrics if applies(metric, turn)]
        return await score_exchange(wanted, turn, judge_repeats=judge_repeats, attempt=attempt)

    turns = await asyncio.gather(*map(score, list_turns(exchange)))
    return {metric.name: combine_turns(metric, [turn.get(metric.name) for turn in turns]) for metric in metrics}


def _name_reply(exchange: Exchange, attempt: tuple[str, int] | None, repeat: int) -> GradedReply | None:
    return None if attempt is None else GradedReply((attempt[0], exchange.sample.id), attempt[1], repeat)


def _families(metrics: Sequence[Metric]) -> list[tuple[Metric, list[Metric]]]:
    """Return each metric to compute, with the requested metrics that are derived from it (or are the same metric)."""
    families: dict[str, tuple[Metric, list[Metric]]] = {}
    for metric in metrics:
        root = metric.root or metric
        families.setdefault(root.name, (root, []))[1].append(metric)
    return list(families.values())


def _derive(members: Sequence[Metric], score: Score) -> dict[str, Score]:
    return {
        metric.name: metric.definition.derive(score) if metric.root and metric.definition.derive else score
        for metric in members
    }


async def _finish_family(members: Sequence[Metric], pending: Awaitable[Score], add: Keep) -> None:
    add(_derive(members, await pending))


def _start(metric: Metric, exchange: Exchange, list_gradings: ListGradings) -> Score | Awaitable[Score]:
    """Return the score, or an awaitable of it. A judged metric has one score per grading."""
    count = len(list_gradings()) if Need.JUDGE in metric.needs else 1
    if count == 1:
        return _start_once(metric, exchange, list_gradings)
    started = [_start_once(metric, exchange, list_gradings, number) for number in range(count)]
    return _join([item if not isinstance(item, Score) else _ready(item) for item in started], metric.panel)


async def _ready(score: Score) -> Score:
    return score


async def _join(gradings: Sequence[Awaitable[Score]], panel: Panel | None) -> Score:
    """Return several gradings of one reply as one score: that of the panel, the mean, or the first without a value."""
    scores = await asyncio.gather(*gradings)
    if panel is not None:
        return panel.join(scores)
    odd = next((score for score in scores if score.status is not ScoreStatus.SCORED), None)
    if odd is not None:
        return odd
    values = tuple(score.value for score in scores if score.value is not None)
    return Score.scored(
        compute_statistic(values, "mean"), scores[0].reason, [score.evidence_or_none for score in scores], values
    )


def _start_once(
    metric: Metric, exchange: Exchange, list_gradings: ListGradings, number: int = 0
) -> Score | Awaitable[Score]:
    if metric.skip_reason is not None or metric.scorer is None:
        return Score.skipped(metric.skip_reason or "not computed")
    missing = _find_missing(metric, exchange)
    if missing is not None:
        return missing
    try:
        result = metric.scorer(exchange)
    except BaseException as error:
        return _failed(metric, error)
    if isinstance(result, Score):
        return _within_bounds(metric, result)
    return _finish(metric, result, list_gradings()[number])


def _find_missing(metric: Metric, exchange: Exchange) -> Score | None:
    """Return the score of an exchange that lacks what a metric reads."""
    if exchange.reply is None and not metric.definition.scores_failures:
        is_stopped = (exchange.error or "").startswith(OUT_OF_TIME)
        return Score.failed(
            f"no usable reply: {exchange.error}", Cause.STOPPED if is_stopped else Cause(exchange.cause)
        )
    if Need.JUDGE in metric.needs and not exchange.sample.has_words:
        return Score.not_applicable("the query has no words that a judge could read", Cause.DATASET)
    is_blind = metric.definition.scores_answers and not metric.definition.scores_calls
    if is_blind and exchange.reply is not None and exchange.reply.ends_in_calls:
        return Score.not_applicable("the reply ends in tool calls, so there is no answer", Cause.REPLY)
    if exchange.untraced:
        untraced = next(filter(None, map(exchange.lacks_traced, sorted(metric.traced))), None)
        if untraced is not None:
            return Score.failed(untraced, Cause.TRACES)
    return None


async def _finish(metric: Metric, pending: Awaitable[Score], grading: Grading) -> Score:
    CURRENT.set(grading)  # each score has a task, and so a context, of its own
    try:
        return _within_bounds(metric, await pending)
    except BaseException as error:
        return _failed(metric, error)


def _failed(metric: Metric, error: BaseException) -> Score:
    """Return a failed score. A MetricError has a clear message; other errors are prefixed with their type.

    What ends the run is raised again.
    """
    if isinstance(error, InvalidInput) or ends_the_run(error):
        raise error
    if isinstance(error, BudgetSpent):
        return Score(
            ScoreStatus.SKIPPED if error.is_decided else ScoreStatus.FAILED, reason=str(error), cause=Cause.STOPPED
        )
    if isinstance(error, CannotCheck):
        return Score.failed(str(error), Cause.DATASET)
    cause = Cause.JUDGE if isinstance(error, JudgeError) else Cause.OTHER
    message = str(error) if isinstance(error, MetricError) else describe_exception(error)
    return Score.failed(_name_plugin(metric, message), cause)


def _name_plugin(metric: Metric, message: str) -> str:
    origin = METRICS.origin(metric.definition.name)
    return f"{origin}: {message}" if origin else message


def _within_bounds(metric: Metric, score: Score) -> Score:
    low, high = metric.bounds
    if score.value is None or ((low is None or low <= score.value) and (high is None or score.value <= high)):
        return score
    below = low is not None and score.value < low - _ROUNDING
    above = high is not None and score.value > high + _ROUNDING
    if below or above:
        shown = ", ".join("…" if bound is None else f"{bound:g}" for bound in metric.bounds)
        return Score.failed(_name_plugin(metric, f"{metric.name} gave {score.value:g}, outside its range [{shown}]"))
    return replace(score, value=low if low is not None and score.value < low else high)  # a rounding error beyond it


def add_script(exchange: Exchange) -> Exchange:
    """Return the exchange with what its simulated user said as the script of its sample."""
    turns = exchange.reply.turns if exchange.reply else ()
    if not turns:
        return exchange
    told = exchange.sample.as_told([turn.user for turn in turns])
    return exchange if told is exchange.sample else replace(exchange, sample=told)


def list_turns(exchange: Exchange) -> Iterator[Exchange]:
    """Yield the turns of a scripted conversation, each as a sample of its own with its reply.

    If some turns show calls of tools, the others made none, as in the whole conversation.
    """
    sample, turns = exchange.sample, exchange.reply.turns if exchange.reply else ()
    shows_calls = any(turn.reply.tool_calls for turn in turns)
    for place, turn in enumerate(turns):
        asked = sample.at_turn(place, list_messages(sample.opening, turns[:place]))
        made_none = shows_calls and turn.reply.tool_calls is None
        reply = replace(turn.reply, tool_calls=()) if made_none else turn.reply
        named = replace(asked, id=f"{sample.id}#{place + 1}")
        yield replace(exchange, sample=named, reply=reply, given_digest=None)  # which is that of the whole


def is_of_turns(metric: Metric, exchange: Exchange) -> bool:
    """Return whether a metric scores each turn. Calls that the whole sample expects are those of all turns."""
    if not (exchange.sample.turns and exchange.reply and exchange.reply.turns):
        return False
    of_all = Need.EXPECTED_TOOLS in metric.needs and exchange.sample.expected_tools is not None
    return not (metric.definition.is_of_whole or of_all)


def applies(metric: Metric, turn: Exchange) -> bool:
    """Return whether a turn says what is right, if the metric compares with that."""
    return all(has(turn.sample, need) for need in metric.needs & _OF_TURNS)


def combine_turns(metric: Metric, scores: Sequence[Score | None]) -> Score:
    """Return the score of a conversation: the mean over its turns, or the worst of them, as the metric says.

    `scores`: of each turn; None: it says nothing of what is right. A turn that could not be scored fails the whole. If
    a turn says what is right, and its reply cannot be compared with that, neither can the whole.
    """
    known = [(place, score) for place, score in enumerate(scores, 1) if score is not None]
    odd = next(((p, s) for p, s in known if s.status in (ScoreStatus.FAILED, ScoreStatus.SKIPPED)), None)
    if odd is None and metric.needs & _OF_TURNS:
        odd = next(((p, s) for p, s in known if s.value is None and s.cause is Cause.REPLY), None)
    values = {place: score.value for place, score in known if score.value is not None}
    if not known:
        return Score.not_applicable("no turn says what is right", Cause.DATASET)
    if odd is not None or not values:
        place, score = odd or known[-1]
        return replace(score.without_evidence(), reason=f"turn {place}: {score.reason}")
    is_cost = metric.definition.direction is Direction.LOWER
    worst = max(values, key=lambda place: values[place] if is_cost else -values[place])
    reason = dict(known)[worst].reason
    evidence = {"turns": [_describe(place, score) for place, score in known]}
    value = values[worst] if metric.takes_worst_turn else fmean(values.values())
    return Score.scored(value, None if reason is None else f"turn {worst}: {reason}", evidence)


def _describe(place: int, score: Score) -> Mapping[str, Any]:
    said = {"turn": place, "value": score.value, "reason": score.reason, "evidence": score.evidence_or_none}
    return {key: value for key, value in said.items() if value is not None}


async def preload_beside(plan: "Plan", first_exchange: asyncio.Event, targets: "Sequence[JobTarget[Any]]") -> None:
    """Load the packages during the first requests to the first target, unless the gate limits latency."""
    if plan.gates_latency or not targets:
        return
    with suppress(TimeoutError):
        await asyncio.wait_for(first_exchange.wait(), _PRELOAD_GRACE_SECONDS)
    if targets[0].pool.never_reached:
        await first_exchange.wait()
    if not targets[0].is_down:
        await preload(plan)


async def preload(plan: "Plan") -> None:
    """Load the packages, which would otherwise delay the first scores and requests in flight."""
    modules = {module for d in plan.datasets for m in d.metrics.values() for module in m.definition.imports}
    for module in sorted(modules):
        await asyncio.to_thread(import_module, module)
    await plan.services.preload(needs_of(plan.datasets, with_judged=not _may_be_cached(plan)))


def _may_be_cached(plan: "Plan") -> bool:
    """Return whether judged metrics wait until the cache lacks a result.

    A limit on latency is no reason to wait: what is loaded during requests slows them down.
    """
    cache = plan.services.cache
    return cache is not None and cache.may_answer and not plan.gates_latency
