"""Request the answers that a score needs together, where ragas requests one after the other.

ragas still writes each prompt and computes the score: its own steps run here at the same time, and its `ascore` finds
their answers afterwards. If a step fails, `ascore` meets the same failure. Independent steps of ragas 0.4.3:

- AnswerRelevancy asks one question three times.
- ContextPrecision asks about each context.
- AnswerCorrectness breaks down two texts before it compares them.
- FactualCorrectness breaks down and verifies two texts.
- NoiseSensitivity breaks down two texts, and then checks both against each context.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from ragas.metrics.collections.answer_relevancy.util import AnswerRelevanceInput, AnswerRelevanceOutput
from ragas.metrics.collections.context_precision.util import ContextPrecisionInput, ContextPrecisionOutput

Fields = Mapping[str, Any]


async def ask_ahead(metric: Any, fields: Fields) -> None:
    """Request the answers for one score of a metric of ragas. Its judge has to keep them for the metric's `ascore`.

    `fields`: the arguments of `ascore`. Returns when all answers are there or a step has failed.
    """
    steps = _STEPS.get(type(metric).__name__)
    if steps is not None:
        await steps(metric, fields)


async def _together(*steps: Awaitable[Any]) -> list[Any] | None:
    """Return the results of steps that run at the same time; None if one failed."""
    results = await asyncio.gather(*steps, return_exceptions=True)
    return None if any(isinstance(result, BaseException) for result in results) else results


async def _ask_for_questions(metric: Any, fields: Fields) -> None:
    prompt = metric.prompt.to_string(AnswerRelevanceInput(response=fields["response"]))
    metric.llm.request(prompt, AnswerRelevanceOutput, 0, metric.strictness)


async def _ask_about_contexts(metric: Any, fields: Fields) -> None:
    question, answer = fields["user_input"], fields["reference"]
    inputs = [
        ContextPrecisionInput(question=question, context=text, answer=answer) for text in fields["retrieved_contexts"]
    ]
    await _together(*(metric.llm.agenerate(metric.prompt.to_string(one), ContextPrecisionOutput) for one in inputs))


async def _break_down_texts(metric: Any, fields: Fields) -> None:
    texts = fields["response"], fields["reference"]
    await _together(*(metric._generate_statements(fields["user_input"], text) for text in texts))


async def _verify_claims(metric: Any, fields: Fields) -> None:
    response, reference = fields["response"], fields["reference"]
    pairs = (response, reference), (reference, response)
    await _together(*(metric._decompose_and_verify_claims(text, other) for text, other in pairs))


async def _check_statements(metric: Any, fields: Fields) -> None:
    texts = fields["reference"], fields["response"]
    stated = await _together(*(metric._decompose_answer_into_statements(text, fields["user_input"]) for text in texts))
    if stated is None:
        return
    pairs = [(statements, context) for context in fields["retrieved_contexts"] for statements in stated]
    pairs.append((stated[1], fields["reference"]))
    await _together(*(metric._evaluate_statement_faithfulness(*pair) for pair in pairs))


_STEPS: Mapping[str, Callable[[Any, Fields], Awaitable[None]]] = {
    "AnswerRelevancy": _ask_for_questions,
    "ContextPrecision": _ask_about_contexts,
    "AnswerCorrectness": _break_down_texts,
    "FactualCorrectness": _verify_claims,
    "NoiseSensitivity": _check_statements,
}
