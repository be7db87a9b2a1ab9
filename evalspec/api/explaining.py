"""Explain a failure to a person: question, expected answer, what the agent answered, scores."""

from collections.abc import Callable, Iterable, Iterator

from evalspec.base.foreign_text import inert
from evalspec.model import DatasetResult, Sample, SampleResult, Score, Threshold
from evalspec.runs.store.stored_run import StoredRun
from evalspec.verdict.summary import in_slice

_WORST_SHOWN = 3


def explain_threshold(
    result: DatasetResult, limit: Threshold, explain: Callable[[str], Iterable[str]]
) -> Iterator[str]:
    """Describe the samples furthest beyond a threshold. `explain`: the lines on the texts of a sample, by its id."""
    scored = [(sample.scores[limit.metric], sample) for sample in result.samples if in_slice(sample, limit.slice)]
    beyond = [(limit.excess(score.value), score, sample.id) for score, sample in scored if score.value is not None]
    worst = sorted((one for one in beyond if one[0] > 0), key=lambda one: -one[0])
    for _, score, sample_id in worst[:_WORST_SHOWN]:
        yield f"{inert(sample_id)}: {describe_score(score)}"
        yield from (f"  {line}" for line in explain(sample_id))
    if len(worst) > _WORST_SHOWN:
        yield f"and {len(worst) - _WORST_SHOWN} more samples beyond the threshold"


def explain_pass_rate(found: SampleResult, least: float) -> Iterator[str]:
    """Describe a sample whose attempts pass too rarely, with all its scores. `least`: the lowest allowed share."""
    rate = "unknown" if found.pass_rate is None else f"{found.pass_rate:g}"
    yield f"limit:    pass rate >= {least:g} (ciGate.minPassRate), but it is {rate}"
    for metric, score in found.scores.items():
        yield f"  {metric}: {describe_score(score)}"


def describe_score(score: Score) -> str:
    """Return the value, or the status of a score without one, and the reason."""
    value = score.status if score.value is None else f"{score.value:.4g}"
    return f"{value}, {inert(score.reason)}" if score.reason else value


def explain_texts(question: str, expected: str, answers: Iterable[str]) -> Iterator[str]:
    """Show a question, its expected answer if there is one, and each answer."""
    yield f"question: {inert(question)}"
    if expected:
        yield f"expected: {inert(expected)}"
    for answer in answers:
        yield f"got:      {inert(answer)}"


class Answers:
    """The agent's answers of a stored run, which indexes its log once for all samples.

    Raises:
        StoreError: The run cannot be read.
    """

    def __init__(self, stored: StoredRun) -> None:
        self._attempts = stored.outline.repeats if stored.outline.has_texts else 0
        self._index = stored.read_index()

    def read(self, dataset: str, sample: Sample) -> Iterator[str]:
        """Read the answer of each attempt at a sample; none if the run does not keep texts.

        Raises:
            StoreError: The log can no longer be read.
        """
        for found in self._index.read_exchanges(iter([(dataset, sample)]), self._attempts):
            reply = found.exchange.reply
            yield reply.response if reply else f"no usable reply: {found.exchange.error}"
