"""Checks of single replies in any test. Replies are scored like those of whole datasets."""

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from evalspec.agents.function import AgentFunction
from evalspec.api.explaining import explain_texts
from evalspec.api.loops import run_coroutine
from evalspec.api.public import aevaluate
from evalspec.errors import InvalidInput
from evalspec.foreign_text import inert
from evalspec.model import Run, Score, Threshold, VerdictStatus

_NAME = "check"
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

    Returns:
        The scores by metric.

    Raises:
        CheckFailed: A limit is broken. This AssertionError shows question, expected and actual answer, and each limit.
        InvalidInput: A metric is unknown, or its input is missing.
    """
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
) -> Mapping[str, Score]:
    """Score one reply like `check`, without blocking the event loop."""
    if (response is None) == (agent is None):
        raise InvalidInput("check needs one reply, or an agent to query", "give either response or agent")
    reply = dict(response) if isinstance(response, Mapping) else response
    given: list[Any] = []

    async def ask(question: Any) -> Any:
        from evalspec.agents.function import call_function

        given.append(reply if agent is None else await call_function(agent, question))
        return given[-1]

    sample: dict[str, Any] = {"id": _NAME, "input": input, "expected": expected}
    sample |= {key: item for key, item in (("context", context), ("relevant", relevant)) if item is not None}
    with TemporaryDirectory(prefix="evalspec-") as folder:
        manifest = _write_project(Path(folder), sample, metrics)
        run = await aevaluate(manifest, agent=ask, judge=judge, store=Path(folder) / "store")
    scores = run.datasets[0].samples[0].scores
    if run.verdict is not VerdictStatus.PASS:
        raise CheckFailed("\n".join(_describe(run, input, expected, given)), scores)
    return scores


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
    yield from explain_texts(question, expected, answers)
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
