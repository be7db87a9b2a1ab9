"""Checks of single replies in any test. Replies are scored like those of whole datasets."""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from msgspec.structs import replace

from evalspec.api.arguments import refuse_uncallable
from evalspec.api.explaining import explain_texts
from evalspec.api.loops import run_coroutine
from evalspec.api.public import aevaluate
from evalspec.base.errors import InvalidInput, Problem, ServiceError
from evalspec.base.foreign_text import inert
from evalspec.model import Run, Score, Threshold, VerdictStatus
from evalspec.targets.agents.entry import AgentFunction
from evalspec.targets.agents.function import call_function
from evalspec.targets.agents.results import read_result

_NAME = "check"
_PLACES = re.compile(r"^spec\.evaluation\.(datasets\[0\]\.)?")
Limit = float | Mapping[str, float]


class CheckFailed(AssertionError):
    """A reply breaks a limit, or could not be measured. `scores`: the available scores by metric."""

    def __init__(self, message: str, scores: Mapping[str, Score]) -> None:
        super().__init__(message)
        self.scores = scores


def check(
    response: str | Mapping[str, Any] | None = None,
    *,
    input: str,
    metrics: Mapping[str, Limit],
    agent: AgentFunction | None = None,
    expected: str = "",
    context: Sequence[str] | None = None,
    relevant: Sequence[str] | Mapping[str, int] | None = None,
    judge: Mapping[str, Any] | None = None,
    no_judge: bool = False,
) -> Mapping[str, Score]:
    """Score one reply, and fail if a metric breaks its limit or could not be measured.

    Works in sync and async tests; `acheck` does not block the event loop.

    Args:
        response: The reply: text, or a dict with `response`, `retrieved_contexts`, `retrieved_context_ids`, …
        input: The question.
        metrics: Limits by metric. A bare number is the minimum if higher is better, else the maximum.
            `{"min": …}` and `{"max": …}` are explicit.
        agent: Sync or async function that takes the question and returns the reply. Replaces `response`.
        expected: The right answer, for metrics that compare with one.
        context: Passages that contain the answer, for metrics that compare with them.
        relevant: Ids of the relevant documents, or a mapping from ids to grades.
        judge: Configuration of the judge, with the keys of `spec.evaluation.judge`.
        no_judge: Skip judged metrics.

    Returns:
        The scores by metric.

    Raises:
        CheckFailed: A limit is broken. This AssertionError shows question, expected and actual answer, and each limit.
        InvalidInput: A metric is unknown, or its input is missing.
    """
    __tracebackhide__ = True
    return run_coroutine(
        lambda: acheck(
            response,
            input=input,
            metrics=metrics,
            agent=agent,
            expected=expected,
            context=context,
            relevant=relevant,
            judge=judge,
            no_judge=no_judge,
        )
    )


async def acheck(
    response: str | Mapping[str, Any] | None = None,
    *,
    input: str,
    metrics: Mapping[str, Limit],
    agent: AgentFunction | None = None,
    expected: str = "",
    context: Sequence[str] | None = None,
    relevant: Sequence[str] | Mapping[str, int] | None = None,
    judge: Mapping[str, Any] | None = None,
    no_judge: bool = False,
) -> Mapping[str, Score]:
    """Score one reply like `check`, without blocking the event loop."""
    __tracebackhide__ = True
    _refuse_unusable(response, agent, metrics)
    given: list[Any] = []

    async def ask(question: Any) -> Any:
        reply = dict(response) if isinstance(response, Mapping) else response
        given.append(reply if agent is None else await call_function(agent, question))
        return given[-1]

    sample: dict[str, Any] = {"id": _NAME, "input": input, "expected": expected}
    sample |= {key: item for key, item in (("context", context), ("relevant", relevant)) if item is not None}
    with TemporaryDirectory(prefix="evalspec-") as folder:
        manifest = _write_project(Path(folder), sample, metrics)
        try:
            run = await aevaluate(manifest, agent=ask, judge=judge, no_judge=no_judge, store=Path(folder) / "store")
        except InvalidInput as error:
            raise InvalidInput(map(_without_place, error.problems)) from None
    scores = run.datasets[0].samples[0].scores
    if run.verdict is not VerdictStatus.PASS and not _is_left_out(run):
        raise CheckFailed("\n".join(_describe(run, input, expected, given)), scores)
    return scores


def _refuse_unusable(
    response: str | Mapping[str, Any] | None, agent: AgentFunction | None, metrics: Mapping[str, Limit]
) -> None:
    if (response is None) == (agent is None):
        raise InvalidInput("nothing to check, or two things", "give either `response` or `agent`")
    refuse_uncallable(agent)
    if not isinstance(metrics, Mapping) or not metrics:
        fix = 'write {"string_match": 1} for example'
        raise InvalidInput(Problem("a mapping from metrics to limits is required", fix, field="metrics"))
    if isinstance(response, Mapping):
        try:
            read_result(dict(response), "response")
        except ServiceError as error:
            raise InvalidInput(str(error)) from None


def _without_place(problem: Problem) -> Problem:
    """Return a problem without its place in the temporary manifest, which the caller cannot see."""
    return replace(problem, file="", line=None, field=_PLACES.sub("", problem.field))


def _is_left_out(run: Run) -> bool:
    """Return whether nothing but skipped metrics keeps the run from a PASS."""
    return all(limit.status in (VerdictStatus.PASS, VerdictStatus.NOT_GATED) for limit in run.datasets[0].thresholds)


def _write_project(folder: Path, sample: Mapping[str, Any], metrics: Mapping[str, Limit]) -> Path:
    dataset = {"name": _NAME, "path": "$file:check.jsonl", "metrics": list(metrics)}
    evaluation = {"datasets": [dataset], "thresholds": dict(metrics), "ciGate": True}
    head = {"apiVersion": "agentspec.io/v1", "kind": "AgentSpec", "metadata": {"name": _NAME}}
    (folder / "check.jsonl").write_text(json.dumps(sample) + "\n", encoding="utf-8")
    manifest = folder / "check.yaml"
    manifest.write_text(json.dumps(head | {"spec": {"evaluation": evaluation}}), encoding="utf-8")
    return manifest


def _describe(run: Run, question: str, expected: str, given: Sequence[Any]) -> Iterator[str]:
    dataset = run.datasets[0]
    sample = dataset.samples[0]
    broken = [limit for limit in dataset.thresholds if limit.status is not VerdictStatus.PASS]
    yield ", ".join(map(_describe_limit, broken)) or "; ".join(run.reasons)
    answers = (str(answer.get("response", "")) if isinstance(answer, dict) else str(answer) for answer in given)
    yield from explain_texts(_as_text(question), _as_text(expected), answers)
    if sample.error:
        yield f"error:    {inert(sample.error)}"
    for limit in broken:
        reason = sample.scores[limit.metric].reason if limit.metric in sample.scores else None
        if reason:
            yield f"{limit.metric}: {inert(reason)}"


def _describe_limit(limit: Threshold) -> str:
    value = "not measured" if limit.value is None else f"{limit.value:.4g}"
    sides = [f"at least {limit.min:g}"] if limit.min is not None else []
    sides += [f"at most {limit.max:g}"] if limit.max is not None else []
    return f"{limit.metric} is {value}, expected {' and '.join(sides)}"


def _as_text(given: Any) -> str:
    """Return a question or an expected answer, which may be a conversation or several answers, as one text."""
    if isinstance(given, str):
        return given
    return " or ".join(str(one.get("content", "")) if isinstance(one, Mapping) else str(one) for one in given)
