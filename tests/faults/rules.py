"""The gate as rules: what a run must report, given what was injected.

Written from gate.md, metrics.md, runs.md and compare.md of the docs, never from the program's output or code.

Read it from top to bottom: one score, the score of a sample, one limit, the floor under each sample, a comparison with
the baseline, the verdict, the exit code.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product
from math import comb, prod
from typing import Any

from evalspec.verdict.stats.bounded import compute_bounded_interval
from faults.injected import SAMPLES, SLOW_SECONDS, TOKENS, AgentFault, JudgeFault, supported_statements

SCORED, NOT_APPLICABLE, SKIPPED, FAILED = "scored", "not_applicable", "skipped", "failed"
PASS, FAIL, INCOMPLETE, NOT_GATED = "PASS", "FAIL", "INCOMPLETE", "NOT_GATED"
JUDGED = ("faithfulness", "hallucination")
METRICS = (*JUDGED, "string_match", "latency_p95", "tokens_mean", "error_rate", "truncated_rate")
LOWER_IS_BETTER = ("hallucination", "latency_p95", "tokens_mean", "error_rate", "truncated_rate")
SOME_LATENCY = 5.0
"""Latencies are not predicted; limits on them are so wide or so tight that any latency gives the same outcome."""
_ROUNDING = 1e-9


# --- One reply ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Asked:
    """One attempt at one sample. `reply`: the JSON that the agent sent, None where it sent none.

    `unreachable`: nobody listened.
    """

    sample: int
    reply: Mapping[str, Any] | None
    unreachable: bool = False
    is_slow: bool = False
    judge: JudgeFault = field(default_factory=JudgeFault)

    @property
    def is_answer(self) -> bool:
        """The mapped answer must be one text. A mapped place that does not exist fails the sample; an empty list
        does not."""
        reply = self.reply or {}
        return isinstance(reply.get("response"), str) and isinstance(reply.get("contexts"), list)


@dataclass(frozen=True)
class Score:
    """What is known of one score. `cause`: whom a missing score is due to; of a mean over attempts, whom the attempts
    are due to that lack evidence."""

    status: str
    value: float | None = None
    cause: str | None = None

    @property
    def lacks_evidence(self) -> bool:
        """Not applicable because of the reply or the judge."""
        return self.status == NOT_APPLICABLE and self.cause in ("reply", "judge")


def score_reply(metric: str, asked: Asked, *, no_judge: bool) -> Score:
    """One metric on one reply.

    What --no-judge leaves out is skipped, whatever the agent does. An agent that did not reply fails every metric but
    error_rate, which scores 1; an agent that cannot be reached has no error rate.
    """
    if metric in JUDGED and no_judge:
        return Score(SKIPPED)
    if metric == "error_rate" and not asked.unreachable:
        return Score(SCORED, float(not asked.is_answer))
    if not asked.is_answer:
        return Score(FAILED, cause="reply")
    return _OF_ANSWERS[metric](asked)


def _faithfulness(asked: Asked) -> Score:
    """Supported statements / statements, 0 where the reply brought no context. An answer that is empty or only declines
    has no statement. A judge whose answer cannot be used gives no score, and never another score."""
    response, contexts = asked.reply["response"], asked.reply["contexts"]
    if not response.strip() or response.startswith("I don't know"):
        return Score(NOT_APPLICABLE, cause="reply")
    if asked.judge.spoils == "everything" or (asked.judge.spoils == "verdicts" and contexts):
        return Score(FAILED, cause="judge")
    if asked.judge.spoils == "statements":
        return Score(NOT_APPLICABLE, cause="judge")
    supported, stated = supported_statements(asked.sample)
    is_supported = contexts and "gears sing" not in response
    return Score(SCORED, supported / stated if is_supported else 0.0)


def _hallucination(asked: Asked) -> Score:
    """1 - faithfulness."""
    found = _faithfulness(asked)
    return found if found.value is None else Score(SCORED, 1 - found.value)


def _string_match(asked: Asked) -> Score:
    """Whether the answer has the expected words. It looks at neither contexts nor judge, and an empty answer misses."""
    return Score(SCORED, float("copper" in asked.reply["response"] and asked.sample != SAMPLES - 1))


def _latency(asked: Asked) -> Score:
    return Score(SCORED, SOME_LATENCY)


def _tokens(asked: Asked) -> Score:
    """Unknown usage is not 0."""
    return Score(SCORED, TOKENS) if "usage" in asked.reply else Score(NOT_APPLICABLE, cause="reply")


def _truncated(asked: Asked) -> Score:
    finish = asked.reply.get("finish")
    return Score(SCORED, float(finish == "length")) if finish else Score(NOT_APPLICABLE, cause="reply")


def _error(asked: Asked) -> Score:
    return Score(SCORED, 0.0)


_OF_ANSWERS = {
    "faithfulness": _faithfulness,
    "hallucination": _hallucination,
    "string_match": _string_match,
    "latency_p95": _latency,
    "tokens_mean": _tokens,
    "error_rate": _error,
    "truncated_rate": _truncated,
}


# --- One sample -----------------------------------------------------------------------------------------------------


def combine(scores: Sequence[Score]) -> Score:
    """The score of a sample from those of its attempts: the mean of those that apply, unless one is missing."""
    for status in (FAILED, SKIPPED):
        for score in scores:
            if score.status == status:
                return score
    values = [score.value for score in scores if score.value is not None]
    lacking = [score for score in scores if score.lacks_evidence]
    if not values:
        return (lacking or scores)[0]
    return Score(SCORED, sum(values) / len(values), lacking[0].cause if lacking else None)


@dataclass(frozen=True)
class SampleScores:
    """All that is known of one sample."""

    asked: Sequence[Asked]
    attempts: Sequence[Mapping[str, Score]]

    @property
    def scores(self) -> Mapping[str, Score]:
        """Its scores over all attempts."""
        return {metric: combine([attempt[metric] for attempt in self.attempts]) for metric in METRICS}

    @property
    def answered(self) -> bool:
        """An attempt without a reply fails its sample."""
        return all(asked.is_answer for asked in self.asked)

    def in_slice(self, name: str | None) -> bool:
        """Slices are `parity=even` and `parity=odd`."""
        return name is None or name == f"parity={'odd' if self.asked[0].sample % 2 else 'even'}"


def score_samples(asked: Sequence[Sequence[Asked]], *, no_judge: bool) -> list[SampleScores]:
    """Each sample with its attempts."""
    return [
        SampleScores(
            attempts,
            [{metric: score_reply(metric, one, no_judge=no_judge) for metric in METRICS} for one in attempts],
        )
        for attempts in asked
    ]


# --- One limit ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Policy:
    """`ciGate`, with the defaults of docs/reference/manifest.md. Three of them are None here where they are not stated:
    they yield where the missing scores could not change the outcome."""

    enabled: bool = True
    min_coverage: float | None = None
    max_error_rate: float | None = None
    max_not_applicable: float | None = None
    min_samples: int = 1
    min_pass_rate: float | None = None
    confidence: float | None = None
    max_drop: Mapping[str, float] | None = None
    alpha: float | None = 0.05
    not_worse: bool = False
    new_failures: int | None = None

    @property
    def coverage(self) -> float:
        """The share of the scores that is enough without another thought."""
        return 1.0 if self.min_coverage is None else self.min_coverage

    @property
    def not_applicable(self) -> float:
        """The share that may be not applicable."""
        return 0.1 if self.max_not_applicable is None else self.max_not_applicable


@dataclass(frozen=True)
class Limit:
    """One threshold."""

    metric: str
    min: float | None = None
    max: float | None = None
    slice: str | None = None
    stat: str | None = None

    @property
    def statistic(self) -> str:
        """The metric's own where the limit names none."""
        return self.stat or ("p95" if self.metric == "latency_p95" else "mean")

    def holds(self, value: float) -> bool:
        """Equal passes."""
        return (self.min is None or value >= self.min - _ROUNDING) and (
            self.max is None or value <= self.max + _ROUNDING
        )

    def best_value(self) -> float:
        """The most helpful value that a missing score could have."""
        return 0.0 if self.min is None else self._highest

    def worst_value(self) -> float:
        """The least helpful value that a missing score could have."""
        return self._highest if self.min is None else 0.0

    @property
    def _highest(self) -> float:
        return 1e9 if self.metric in ("latency_p95", "tokens_mean") else 1.0


@dataclass(frozen=True)
class LimitOutcome:
    """What a report must say of one limit."""

    status: str
    value: float | None
    scored: int
    expected: int
    not_applicable: Mapping[str, int]


def decide_limit(limit: Limit, samples: Sequence[SampleScores], policy: Policy, bound: float | None) -> LimitOutcome:
    """One limit. `bound`: the worse end of the interval as reported, where the gate has a confidence; whether intervals
    are right is tested elsewhere."""
    members = [sample for sample in samples if sample.in_slice(limit.slice)]
    scores = _pool(limit, members)
    counts = Counter(score.status for score in scores)
    expected = counts[SCORED] + counts[FAILED] + counts[SKIPPED]
    value = compute_statistic([s.value for s in scores if s.value is not None], limit.statistic)
    causes = Counter(score.cause for score in scores if score.status == NOT_APPLICABLE)
    status = _decide(limit, members, scores, policy, value, bound)
    return LimitOutcome(status, value, counts[SCORED], expected, dict(causes))


def _pool(limit: Limit, members: Sequence[SampleScores]) -> list[Score]:
    """A mean is of samples; any other statistic is of single replies."""
    if limit.statistic == "mean":
        return [sample.scores[limit.metric] for sample in members]
    return [attempt[limit.metric] for sample in members for attempt in sample.attempts]


def _decide(
    limit: Limit,
    members: Sequence[SampleScores],
    scores: Sequence[Score],
    policy: Policy,
    value: float | None,
    bound: float | None,
) -> str:
    counts = Counter(score.status for score in scores)
    expected = counts[SCORED] + counts[FAILED] + counts[SKIPPED]
    # 1. Every score skipped: not gated.
    if counts[SKIPPED] and counts[SKIPPED] == expected:
        return NOT_GATED
    if value is None or counts[SCORED] < policy.min_samples:
        return INCOMPLETE
    excess = _lacks_too_much(limit.metric, members, policy)
    missing = sum(score.status in (FAILED, SKIPPED) or bool(excess and score.cause) for score in scores)
    settled = [
        score.value
        for score in scores
        if score.value is not None and not (excess and score.cause in ("reply", "judge"))
    ]
    # 2. Beyond the limit whatever the missing scores are: FAIL.
    if not _holds([*settled, *[limit.best_value()] * missing], limit, policy):
        return FAIL
    # 3. A rule on what may be missing that the manifest states holds; its default yields to 4.
    too_few = counts[SCORED] / expected < policy.coverage
    if (too_few and policy.min_coverage is not None) or (excess and policy.max_not_applicable is not None):
        return INCOMPLETE
    # 4. Within the limit whatever the missing scores are: PASS. Where the manifest accepts that they are missing, the
    # value decides; with confidence, the worst ones always count.
    worst = missing if too_few or excess or policy.confidence else 0
    known = settled if worst else [score.value for score in scores if score.value is not None]
    has_interval = policy.confidence is None or bound is not None
    return PASS if has_interval and _holds([*known, *[limit.worst_value()] * worst], limit, policy) else INCOMPLETE


def _holds(values: Sequence[float], limit: Limit, policy: Policy) -> bool:
    """Whether the value is within the limit, and with confidence the end of its interval too. Whether intervals are
    right is tested elsewhere."""
    value = compute_statistic(values, limit.statistic)
    if policy.confidence is None:
        return limit.holds(value)
    ends = compute_bounded_interval(values, (0.0, 1.0), policy.confidence)
    return limit.holds(value) and limit.holds(ends[limit.min is None])


def _lacks_too_much(metric: str, members: Sequence[SampleScores], policy: Policy) -> bool:
    """(reply + judge) / (scored + failed + skipped + reply + judge) over all attempts exceeds maxNotApplicable. The
    attempts of one sample are always allowed, unless it is 0."""
    scores = [attempt[metric] for sample in members for attempt in sample.attempts]
    lacking = sum(score.lacks_evidence for score in scores)
    total = lacking + sum(score.status != NOT_APPLICABLE for score in scores)
    of_one_sample = len(members[0].attempts) if policy.not_applicable else 0
    return lacking > max(of_one_sample, policy.not_applicable * total + _ROUNDING)


def compute_statistic(values: Sequence[float], statistic: str) -> float | None:
    """Mean, min, or the percentile by linear interpolation."""
    if not values:
        return None
    if statistic == "mean":
        return sum(values) / len(values)
    ordered = sorted(values)
    place = {"min": 0.0, "p95": 0.95}[statistic] * (len(ordered) - 1)
    low = int(place)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (place - low) * (ordered[high] - ordered[low])


# --- The floor under each sample ------------------------------------------------------------------------------------


def find_pass_rate(sample: SampleScores, limits: Sequence[Limit]) -> float | None:
    """The share of a sample's attempts that pass; None while one is undecided, or no limit applies to it."""
    own = [limit for limit in limits if limit.statistic in ("mean", "min", "max") and sample.in_slice(limit.slice)]
    passed = [_passes(asked, scores, own) for asked, scores in zip(sample.asked, sample.attempts, strict=True)]
    return None if None in passed else sum(passed) / len(passed)


def _passes(asked: Asked, scores: Mapping[str, Score], limits: Sequence[Limit]) -> bool | None:
    """An attempt without a reply does not pass; an agent that could not be reached leaves it undecided, and so does a
    failed score, unless what is known breaks another limit. A limit on a skipped metric is none."""
    held = [(limit, scores[limit.metric]) for limit in limits if scores[limit.metric].status != SKIPPED]
    if not held or asked.unreachable:
        return None
    if not asked.is_answer:
        return False
    if any(score.value is not None and not limit.holds(score.value) for limit, score in held):
        return False
    applying = {score.status for _, score in held} - {NOT_APPLICABLE}
    return True if applying == {SCORED} else None


def decide_floor(samples: Sequence[SampleScores], limits: Sequence[Limit], policy: Policy) -> set[str]:
    """What `minPassRate` adds to the verdict."""
    if policy.min_pass_rate is None:
        return set()
    rates = [find_pass_rate(sample, limits) for sample in samples]
    below = any(rate is not None and rate < policy.min_pass_rate for rate in rates)
    return ({FAIL} if below else set()) | ({INCOMPLETE} if None in rates else set())


# --- The baseline ---------------------------------------------------------------------------------------------------


def decide_drop(
    metric: str,
    before: Sequence[SampleScores],
    after: Sequence[SampleScores],
    policy: Policy,
    *,
    same_judge: bool,
    proven: bool,
) -> set[str]:
    """What a comparison with the baseline may say of one metric. `proven`: the report claims that the data exclude a
    drop of maxDrop, which only an interval can tell."""
    if metric in JUDGED and not same_judge:
        return {INCOMPLETE}  # another metric than the baseline's
    sign = -1 if metric in LOWER_IS_BETTER else 1
    limit = policy.max_drop[metric]
    old = [sample.scores[metric] for sample in before]
    new = [sample.scores[metric] for sample in after]
    drops = [sign * (a.value - b.value) for a, b in zip(old, new, strict=True) if b.value is not None]
    lost = [a.value for a, b in zip(old, new, strict=True) if b.status == FAILED]
    alone = sum(b.value is None for b in new)
    if not drops:
        return {INCOMPLETE}
    drop = sum(drops) / len(drops)
    best = 1.0 if sign > 0 else 0.0
    at_best = (sum(drops) + sum(sign * (value - best) for value in lost)) / (len(drops) + len(lost))
    is_beyond = drop > limit + _ROUNDING
    is_significant = policy.alpha is None or compute_p_value(drops) < policy.alpha
    fails_anyhow = is_beyond and is_significant and at_best > limit + _ROUNDING
    if lost and not fails_anyhow and len(drops) / (len(drops) + len(lost)) < policy.coverage:
        return {INCOMPLETE}
    if alone > 1 and alone > policy.not_applicable * len(old):
        return {INCOMPLETE}
    if is_beyond and is_significant:
        return {FAIL} if fails_anyhow else {INCOMPLETE}
    if is_beyond and 0.5 ** len(drops) >= policy.alpha:
        return {INCOMPLETE}  # so few pairs that no drop could be shown
    if policy.not_worse:
        return {INCOMPLETE} if is_beyond or not proven else {PASS}
    return {PASS}


def compute_p_value(drops: Sequence[float]) -> float:
    """One-sided: the share of all sign assignments with a mean drop at least as large. Exact."""
    changed = [drop for drop in drops if drop]
    seen = sum(changed)
    sums = [
        sum(sign * drop for sign, drop in zip(s, changed, strict=True)) for s in product((1, -1), repeat=len(changed))
    ]
    return sum(value >= seen - _ROUNDING for value in sums) / len(sums)


_ALPHA = 0.05


def compute_chance_of_new_failures(rates: Sequence[tuple[float | None, float]], failing: int) -> float:
    """Two attempts before, two now: given a sample's passes of the four, any order of them is as likely. Exact."""
    passes = [round(2 * before + 2 * now) for before, now in rates if before is not None]
    chances = [comb(c, 2) / comb(4, 2) for c in passes if 2 <= c < 4]
    return sum(
        prod(p if joins else 1 - p for joins, p in zip(chosen, chances, strict=True))
        for chosen in product((True, False), repeat=len(chances))
        if sum(chosen) >= failing
    )


def decide_new_failures(
    before: Sequence[SampleScores], after: Sequence[SampleScores], limits: Sequence[Limit], policy: Policy
) -> str:
    """Samples that passed in the baseline and fail now, unless an unchanged agent has as many in a twentieth of such
    comparisons. A sample without a reply fails; an unknown one decides nothing."""
    old = [find_pass_rate(sample, limits) for sample in before]
    new = [find_pass_rate(sample, limits) for sample in after]
    fails = [rate < 1 if rate is not None else not sample.answered for rate, sample in zip(new, after, strict=True)]
    failing = sum(a == 1 and b for a, b in zip(old, fails, strict=True))
    unknown = sum(a == 1 and rate is None and not b for a, rate, b in zip(old, new, fails, strict=True))
    if failing > policy.new_failures:
        rates = [
            (a, 0.0 if rate is None else rate)
            for a, rate, b in zip(old, new, fails, strict=True)
            if rate is not None or b
        ]
        return FAIL if compute_chance_of_new_failures(rates, failing) < _ALPHA else PASS
    return PASS if failing + unknown <= policy.new_failures else INCOMPLETE


# --- The verdict ----------------------------------------------------------------------------------------------------


def decide_verdict(
    limits: Mapping[Limit, str],
    floor: set[str],
    regressions: Sequence[str],
    samples: Sequence[SampleScores],
    policy: Policy,
) -> str:
    """The verdict from the outcomes of limits, floor and comparison with the baseline."""
    if not policy.enabled:
        return NOT_GATED
    found = {*limits.values(), *floor, *regressions}
    # FAIL wins over INCOMPLETE, because a limit fails only where the missing scores cannot change that.
    if FAIL in found:
        return FAIL
    asked = [one for sample in samples for one in sample.asked]
    error_rate = sum(not one.is_answer for one in asked) / len(asked)
    unchecked = {*limits.values(), *regressions} == {NOT_GATED}
    # The default of maxErrorRate yields where every limit passes whatever the missing replies are.
    gated = {limit: status for limit, status in limits.items() if status != NOT_GATED}
    is_decided = any(limit.slice is None for limit in gated) and {*gated.values()} == {PASS}
    allowed = 1.0 if policy.max_error_rate is None and is_decided else policy.max_error_rate or 0.0
    if INCOMPLETE in found or unchecked or error_rate > allowed:
        return INCOMPLETE
    return PASS


def find_exit_code(verdict: str, samples: Sequence[SampleScores]) -> int:
    """0 PASS, or not gated and something was measured; 1 FAIL; 3 could not measure."""
    if verdict == NOT_GATED:
        return 0 if any(sample.answered for sample in samples) else 3
    return {PASS: 0, FAIL: 1, INCOMPLETE: 3}[verdict]


# --- From the injected faults to what was asked ------------------------------------------------------------------


def recount(
    agent: AgentFault,
    hit: int,
    judge: JudgeFault,
    judge_hit: int,
    *,
    attempts: int,
    only_first: bool,
    answered: Mapping[int, int],
) -> list[list[Asked]]:
    """Each attempt at each sample. `answered`: how often an agent that stopped listening had answered each sample."""

    def ask(n: int, attempt: int) -> Asked:
        is_hit = n < hit and (attempt == 0 or not only_first)
        fault = agent if is_hit and not agent.refuses else AgentFault()
        found_by = judge if n >= SAMPLES - judge_hit else JudgeFault()
        if agent.refuses and attempt >= answered[n]:
            return Asked(n, None, unreachable=True, judge=found_by)
        return Asked(n, fault.reply(n), is_slow=fault.seconds == SLOW_SECONDS, judge=found_by)

    return [[ask(n, attempt) for attempt in range(attempts)] for n in range(SAMPLES)]
