"""Forecast what the judge will be used for: calls, tokens, cost and time of each metric, low and high.

Tokens of a call and time are those of earlier runs of the manifest, with room for other replies. Without any, tokens
are estimated from the texts of the samples, and time is unknown.
"""

import sys
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TypeVar

from msgspec import Struct
from msgspec.structs import replace

from evalspec.base.errors import EvalspecError
from evalspec.base.trust import current_trust
from evalspec.inputs.manifest.gate_schema import JudgePolicy
from evalspec.inputs.manifest.judge_schema import JudgeConfig
from evalspec.inputs.manifest.loader import LoadedManifest
from evalspec.model import AgentReply, Exchange, JudgePrice, JudgeUsage, Need, Sample, SimulatedUser, Threshold
from evalspec.model.calibrations import JudgeCalibration
from evalspec.model.corrections import JudgeCorrection
from evalspec.model.exchanges import SIMULATED_USER
from evalspec.model.forecasts import JudgeForecast, LabelForecast, Range, UsageBasis
from evalspec.runs.planning.draft import PlannedDataset
from evalspec.runs.planning.inputs import read_judge_anchors
from evalspec.runs.planning.options import RunOptions
from evalspec.runs.planning.outlining import identify_measure
from evalspec.runs.planning.services import read_price, resolve_judge
from evalspec.runs.store.run_store import RunStore
from evalspec.runs.store.stored_run import open_run
from evalspec.scoring.controls import MOST_PAIRS, make_controls
from evalspec.scoring.judge.cache_file import CONTROL_ID, use_cache
from evalspec.scoring.metrics.base import Metric
from evalspec.verdict.correction.calibration_file import FOLDER, read_calibration
from evalspec.verdict.correction.controls import plan_rounds
from evalspec.verdict.correction.drift import FEWEST_ANCHORS, FEWEST_FRESH, MOST_FRESH, count_first_anchors
from evalspec.verdict.stats.detection import count_needed_to_decide
from evalspec.verdict.validity.estimates import CONFIDENCE

T = TypeVar("T")
_MOST_RUNS = 3
_MOST_READ = 50
"""The newest runs of the store among which those of the manifest are looked for."""

_PROMPT_BYTES = (1_500, 8_000)
"""Size of a prompt without the texts of the sample: those of the metrics have 1,600 to 7,500 bytes."""
_REPLY_BYTES = 4_000
"""Assumed size of a long reply, which is not known yet."""
_BYTES_PER_TOKEN = (6, 2)
"""Of English text a token has about four bytes, of other scripts and of JSON fewer."""
_FEWEST_OUTPUT = 10
_CASES_A_PAIR = 2
_ROOM, _ANSWER_ROOM = 1.5, 3.0
"""The factors by which a call may need more, or less, than in earlier runs, because replies may be longer or shorter.

A prompt is mostly instructions, but an answer of the judge grows with the reply.
"""
_NO_RUNS = "no stored run of this manifest has asked this judge for it"
_NO_PRICE = "spec.evaluation.{}.price is not set"
_NO_PACE = "how fast the simulated user and the agent answer is unknown"


class _PastRun(Struct, frozen=True):
    """What an earlier run used. `seconds`: wall time per judge call."""

    usage: Mapping[str, JudgeUsage]
    seconds: float | None


class JudgeForecaster:
    """Forecasts the judge's part of planned datasets. `store`: of earlier runs and the judge's cache; None: unknown."""

    def __init__(self, loaded: LoadedManifest, options: RunOptions, store: RunStore | None) -> None:
        self.folder = loaded.path.parent
        self._options = options
        self._judge = resolve_judge(loaded.manifest.spec.evaluation.judge) or JudgeConfig()
        self.judges = len(self._judge.members)
        self._price = read_price(self._judge.price)
        self._user = loaded.manifest.spec.evaluation.user
        self._past = [] if store is None else _read_past(store, str(loaded.path), self._judge)
        self._policy = policy = loaded.manifest.spec.evaluation.ci_gate
        self._anchors = read_judge_anchors(loaded)
        is_cached = not (options.no_cache or options.fresh or policy.fresh or current_trust().is_limited)
        self._cache = store.cache if store is not None and is_cached else None

    def foresee(
        self, dataset: PlannedDataset, metrics: Mapping[str, Metric], calls: Mapping[str, int]
    ) -> list[JudgeForecast]:
        """Return the forecast of each judged metric. `calls`: its estimated calls, without cache and retries."""
        times = self._options.repeat * self._options.judge_repeat * self.judges
        cached = self._count_cached(dataset, {sample.id for sample in dataset.samples}, times)
        return [self._foresee_metric(metrics[name], dataset, most, times, cached) for name, most in calls.items()]

    def foresee_controls(self, dataset: PlannedDataset, metrics: Mapping[str, Metric]) -> list[JudgeForecast]:
        """Return the forecast of the control cases of each judged metric that has any."""
        cached = self._count_cached(dataset, {CONTROL_ID}, _CASES_A_PAIR * MOST_PAIRS * self.judges)
        return [
            self._foresee_cases(metric, cases, min(_find(cached, metric) or 0, len(cases)))
            for metric in metrics.values()
            if (cases := _list_cases(dataset, metric))
        ]

    def foresee_anchors(self, dataset: PlannedDataset, metrics: Mapping[str, Metric]) -> Iterator[JudgeForecast]:
        """Yield the forecast of the replies of the calibration that are judged again: the first ones, and all."""
        share = self._policy.judge.anchor_share
        grades = len(dataset.samples) * self._options.repeat * self._options.judge_repeat
        for own in self._anchors.metrics if self._anchors else ():
            known = {sample.id: sample for sample in dataset.samples}
            kept = [known[one.sample] for one in own.anchors if one.sample in known]
            metric = metrics.get(own.metric) if own.dataset == dataset.name else None
            first = count_first_anchors(grades, share, len(kept))
            if metric is not None and first >= FEWEST_ANCHORS:
                each = _count_calls(metric, Exchange(kept[0], AgentReply("", own.anchors[0].retrieved_contexts)))
                calls = (FEWEST_FRESH * first * each, MOST_FRESH * len(kept) * each)
                yield self._foresee_use(metric, kept, MOST_FRESH * len(kept), 0, calls)

    def foresee_user(self, dataset: PlannedDataset) -> Iterator[JudgeForecast]:
        """Yield the forecast of the model that plays the users: at least one message and an end, at most all turns."""
        users = [sample.user for sample in dataset.samples if sample.user is not None]
        if not users or self._user is None or self._options.has_replies:
            return
        price, times = read_price(self._user.price), self._options.repeat
        fewest, most = (times * sum(min(end, user.max_turns) for user in users) for end in (2, sys.maxsize))
        tokens_in = fewest * _PROMPT_BYTES[0] / _BYTES_PER_TOKEN[0], times * sum(map(_measure_most, users))
        tokens_out = _multiply((fewest, most), (_FEWEST_OUTPUT, self._user.max_tokens))
        yield JudgeForecast(
            metric=SIMULATED_USER,
            scores=times * len(users),
            cached=0,
            calls=(fewest, most),
            input_tokens=tokens_in,
            output_tokens=tokens_out,
            cost=_compute_cost(price, tokens_in, tokens_out),
            cost_reason=_NO_PRICE.format("user") if price is None else None,
            seconds=None,
            seconds_reason=_NO_PACE,
            source=UsageBasis.ESTIMATED,
        )

    def _foresee_cases(self, metric: Metric, cases: Sequence[Exchange], cached: int) -> JudgeForecast:
        """Return the forecast of control cases: those before the first test at least, all of them at most."""
        first = _CASES_A_PAIR * plan_rounds(len(cases) // _CASES_A_PAIR)[0]
        fewest, most = (
            self.judges * sum(_count_calls(metric, case) for case in part) for part in (cases[:first], cases)
        )
        fewest -= self.judges * first * (metric.definition.judge_draws - 1)
        asked = max(0.0, 1 - cached / (first * self.judges))
        samples = [case.sample for case in cases]
        return self._foresee_use(metric, samples, self.judges * len(cases), cached, (round(fewest * asked), most))

    def _count_cached(self, dataset: PlannedDataset, ids: Collection[str], times: int) -> dict[str, int]:
        """Return the number of scores of samples in the cache by metric, if the replies are still the same.

        `times`: that many of a sample count at most.
        """
        if self._cache is None:
            return {}
        try:
            found: dict[str, dict[str, int]] = use_cache(self._cache, lambda file: file.count_scores(dataset.name), {})
        except EvalspecError:
            return {}  # the run reports it
        return {
            metric: sum(min(count, times) for sample, count in counts.items() if sample in ids)
            for metric, counts in found.items()
        }

    def _foresee_metric(
        self, metric: Metric, dataset: PlannedDataset, calls: int, times: int, all_cached: Mapping[str, int]
    ) -> JudgeForecast:
        scores = len(dataset.samples) * times
        cached = _find(all_cached, metric) or 0
        asked = 1 - cached / scores if scores else 0.0
        fewest = calls - scores * (metric.definition.judge_draws - 1)
        return self._foresee_use(metric, dataset.samples, scores, cached, (round(fewest * asked), calls))

    def _foresee_use(
        self, metric: Metric, samples: Sequence[Sample], scores: int, cached: int, ends: tuple[int, int]
    ) -> JudgeForecast:
        """Return the forecast of a number of calls, from the least to the most."""
        past = [used for run in self._past if (used := _find(run.usage, metric)) is not None]
        settled = [_count_settled(used) for used in past]
        incoming = _widen(
            [used.input_tokens / calls for used, calls in zip(past, settled, strict=True)],
            self._estimate_prompts(samples),
        )
        outgoing = _widen(
            [used.output_tokens / calls for used, calls in zip(past, settled, strict=True)],
            (_FEWEST_OUTPUT, self._judge.max_tokens),
            _ANSWER_ROOM,
        )
        tokens_in, tokens_out = _multiply(ends, incoming), _multiply(ends, outgoing)
        paces = [run.seconds for run in self._past if run.seconds is not None]
        return JudgeForecast(
            metric=metric.name,
            scores=scores,
            cached=cached,
            calls=ends,
            input_tokens=tokens_in,
            output_tokens=tokens_out,
            cost=_compute_cost(self._price, tokens_in, tokens_out),
            cost_reason=_NO_PRICE.format("judge") if self._price is None else None,
            seconds=_multiply(ends, _widen(paces, (0.0, float("inf")))) if paces else None,
            seconds_reason=None if paces else _NO_RUNS,
            source=UsageBasis.MEASURED if past else UsageBasis.ESTIMATED,
        )

    def _estimate_prompts(self, samples: Sequence[Sample]) -> Range:
        """Return the tokens of a prompt: with the question alone, and with all texts of the sample and a long reply."""
        sizes = [_measure_texts(sample) for sample in samples] or [(0, 0)]
        low, high = (sum(size[end] for size in sizes) / len(sizes) for end in (0, 1))
        least, most = _PROMPT_BYTES
        return (least + low) / _BYTES_PER_TOKEN[0], (most + high + _REPLY_BYTES) / _BYTES_PER_TOKEN[1]


def _compute_cost(price: JudgePrice | None, tokens_in: Range, tokens_out: Range) -> Range | None:
    """Return the cost at the lowest and highest price of input, because the service's cache is unknown."""
    if price is None:
        return None
    (least, *_), (*_, most) = (
        sorted(price.compute_most(one) for one in _list_kinds(round(incoming), round(outgoing)))
        for incoming, outgoing in zip(tokens_in, tokens_out, strict=True)
    )
    return least, most


def _measure_most(user: SimulatedUser) -> float:
    """Return the most tokens of the prompts of one conversation: each has all that was said before."""
    own = _PROMPT_BYTES[0] + len(str(user).encode("utf-8", "surrogatepass"))
    said = _REPLY_BYTES * user.max_turns * (user.max_turns - 1) / 2
    return (user.max_turns * own + said) / _BYTES_PER_TOKEN[1]


def _list_cases(dataset: PlannedDataset, metric: Metric) -> list[Exchange]:
    """Return the control cases of a metric, good and bad in turn; none if there are too few to test the judge."""
    pairs = make_controls(metric.definition.control, dataset.samples) if metric.definition.control else []
    return [case for pair in pairs for case in (pair.good, pair.bad)] if plan_rounds(len(pairs)) else []


def _count_calls(metric: Metric, case: Exchange) -> int:
    count = metric.definition.judge_calls
    return count(len(case.retrieved_contexts or ())) if count else 0


def _find(by_metric: Mapping[str, T], metric: Metric) -> T | None:
    """Return the value of a metric, which may be under its name without options."""
    return by_metric.get(metric.name, by_metric.get(metric.definition.name))


def _measure_texts(sample: Sample) -> tuple[int, int]:
    """Return the bytes of the question, and of all texts of a sample."""
    question = len(sample.question.encode("utf-8", "surrogatepass"))
    texts = (*(sample.retrieved_contexts or ()), *(sample.reference_contexts or ()), *sample.references)
    return question, question + sum(len(text.encode("utf-8", "surrogatepass")) for text in texts)


def _count_settled(used: JudgeUsage) -> int:
    return used.calls - used.uncounted


def _list_kinds(incoming: int, outgoing: int) -> list[JudgeUsage]:
    """Return usages of so many tokens: none of them, or all, read from the service's cache or written to it."""
    plain = JudgeUsage(input_tokens=incoming, output_tokens=outgoing)
    return [
        plain,
        replace(plain, cached_input_tokens=incoming),
        replace(plain, cache_write_input_tokens=incoming),
    ]


def _widen(found: Sequence[float], estimated: Range, room: float = _ROOM) -> Range:
    """Return the least and the most of a quantity in earlier runs, with room up to what is estimated without any."""
    if not found:
        return estimated
    low, high = min(found), max(found)
    return min(low, max(estimated[0], low / room)), max(high, min(estimated[1], high * room))


def _multiply(calls: tuple[int, int], each: Range) -> Range:
    return calls[0] * each[0], calls[1] * each[1]


def _read_past(store: RunStore, manifest: str, judge: JudgeConfig) -> list[_PastRun]:
    """Return what the newest runs of a manifest with this judge used. Runs that cannot be read are left out."""
    found: list[_PastRun] = []
    for folder in store.list()[:_MOST_READ]:
        if len(found) == _MOST_RUNS:
            break
        try:
            stored = open_run(folder)
            digest = stored.fingerprint
            is_same = digest.manifest is not None and digest.manifest.path == manifest
            if not is_same or digest.judge is None or digest.judge.model != judge.model:
                continue
            index = stored.read_index()
        except EvalspecError:
            continue
        usage = {name: used for name, used in index.judge_usage.items() if _count_settled(used)}
        calls = sum(used.calls for used in index.judge_usage.values())
        if usage:
            found.append(_PastRun(usage, index.milliseconds / 1000 / calls if index.milliseconds else None))
    return found


_ASSUMED = (0.25, 0.5, 0.75)
"""What people say, as shares of the room between a limit and the best score."""


def foresee_labels(dataset: PlannedDataset, policy: JudgePolicy, folder: Path) -> list[LabelForecast]:
    """Return the labels that decide each limit on the mean of a judged metric that people can score.

    What people will say is taken from the newest calibration beside the manifest. Without one it is assumed.
    `folder`: of the manifest.
    """
    limits = [] if policy.correct is JudgeCorrection.OFF else [*_list_limits(dataset)]
    calibrations = _read_calibrations(folder / FOLDER) if limits else []
    return [
        found
        for limit, reach in limits
        for known in [_find_people(dataset, limit.metric, folder, calibrations)]
        for found in _foresee(dataset, limit, reach, known)
    ]


def _list_limits(dataset: PlannedDataset) -> Iterator[tuple[Threshold, tuple[float, float]]]:
    """Yield the limits with one end, each with the range of its metric's scores."""
    for limit in dataset.thresholds:
        metric = dataset.find_metric(limit.metric)
        low, high = metric.bounds
        is_judged = Need.JUDGE in metric.needs and Need.EMBEDDINGS not in metric.needs
        is_mean = metric.definition.statistic == "mean" and limit.stat in (None, "mean")
        has_one_end = (limit.min is None) != (limit.max is None)
        if not (is_judged and is_mean and has_one_end) or limit.slice is not None or low is None or high is None:
            continue
        if low < _find_end(limit) < high:  # at the end of the range, no number of labels decides
            yield limit, (low, high)


def _foresee(
    dataset: PlannedDataset, limit: Threshold, reach: tuple[float, float], known: float | None
) -> Iterator[LabelForecast]:
    low, high = reach
    stated = _find_end(limit)
    best = high if limit.max is None else low
    truths = [known] if known is not None else [stated + share * (best - stated) for share in _ASSUMED]
    for truth in truths:
        shares = [(value - low) / (high - low) for value in (truth, stated)]
        replies = len(dataset.samples)
        labels = count_needed_to_decide(shares[0], shares[1], 1 - (limit.confidence or CONFIDENCE), replies)
        yield LabelForecast(limit.metric, stated, truth, labels, replies, known is not None)


def _find_end(limit: Threshold) -> float:
    return limit.min if limit.min is not None else limit.max or 0.0


def _find_people(
    dataset: PlannedDataset, metric: str, folder: Path, calibrations: Sequence[JudgeCalibration]
) -> float | None:
    """Return the mean of people's scores in the newest calibration of a metric; None without one.

    What people said about another rubric says nothing. The judge may be another.
    """
    measured = identify_measure(folder, dataset.metrics[metric]).items() if calibrations else ()
    found = (
        (one.at, of.people)
        for one in calibrations
        for of in one.metrics
        if (of.dataset, of.metric) == (dataset.name, metric) and of.people is not None
        if of.identity.items() >= set(measured)
    )
    return max(found, default=(None, None))[1]


def _read_calibrations(folder: Path) -> list[JudgeCalibration]:
    """Return the calibrations of a folder. Those that cannot be read are left out: `judge apply` reports them."""
    found = []
    for path in sorted(folder.glob("*.json")):
        try:
            found.append(read_calibration(path))
        except EvalspecError:
            continue
    return found
