"""Connect ragas to the judge: ragas writes prompts and computes scores, and its requests go through our client.

Import it through `services.import_ragas` only. Each score has its own ragas metric, which is cheap to create, and its
own judge, which records the verdicts. So concurrent scores cannot mix up their evidence.

The answers that a score needs are requested together, where ragas requests one after the other. ragas still writes each
prompt and computes the score: its own steps run here at the same time, and its `ascore` finds their answers afterwards.
If a step fails, `ascore` meets the same failure. Independent steps of ragas 0.4.3:

- AnswerRelevancy asks one question three times.
- ContextPrecision asks about each context.
- AnswerCorrectness breaks down two texts before it compares them.
- FactualCorrectness breaks down and verifies two texts.
- NoiseSensitivity breaks down two texts, and then checks both against each context.
- TopicAdherence asks about each topic, and which of them are allowed.
"""

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Any

from pydantic import BaseModel, ValidationError
from ragas.embeddings.base import BaseRagasEmbedding
from ragas.llms.base import InstructorBaseRagasLLM
from ragas.messages import AIMessage, HumanMessage, ToolCall, ToolMessage
from ragas.metrics import DiscreteMetric, collections
from ragas.metrics.collections.answer_relevancy.util import AnswerRelevanceInput, AnswerRelevanceOutput
from ragas.metrics.collections.context_precision.util import ContextPrecisionInput, ContextPrecisionOutput
from ragas.prompt.simple_prompt import Prompt

from evalspec.scoring.judge.chat import ChatClient
from evalspec.scoring.judge.embeddings import TextEmbedder
from evalspec.scoring.judge.extraction import UnusableVerdict, extract_object
from evalspec.scoring.judge.grading import CURRENT, Grading
from evalspec.scoring.judge.quoting import quote_foreign
from evalspec.scoring.judge.verdicts import (
    FREE_TEXT,
    Graded,
    NothingStated,
    StatementVerdict,
    explain_nothing_stated,
    parse_input,
    settle_answer,
)

_QUOTED_TEXTS = """Every text to grade is written as JSON: \\n is a line end, \\u003c is "<". Grade the text that it \
stands for.

"""
"""Before each rubric; without braces. If it changes, so do the prompts of rubrics, toxicity and bias."""


class ScoreJudge(InstructorBaseRagasLLM):  # type: ignore[misc]
    """The judge for one score, which records its verdicts. Answers are shared within a grading of the reply."""

    def __init__(self, client: ChatClient, metric: str, grading: Grading) -> None:
        self._client = client
        self._metric = metric
        self._grading = grading
        self._asked: Counter[tuple[str, str]] = Counter()
        self.verdicts: list[StatementVerdict] = []

    def generate(self, prompt: str, response_model: type[BaseModel]) -> BaseModel:
        """Raise TypeError: no metric in use makes synchronous calls."""
        raise TypeError(f"the judge has no synchronous calls; {response_model.__name__} requested for {prompt[:40]!r}")

    async def agenerate(self, prompt: str, response_model: type[BaseModel]) -> BaseModel:
        """Return one answer of the judge, checked against the prompt.

        Raises:
            JudgeError: there is no usable answer.
            NothingStated: a text to give verdicts on has no statement.
        """
        kind = response_model.__name__
        occurrence = self._asked[prompt, kind]
        self._asked[prompt, kind] += 1
        self.request(prompt, response_model, occurrence, occurrence + 1)
        model: BaseModel = await self._grading.answers[prompt, kind, occurrence]
        given, answer = _read_input(prompt, kind)[1], model.model_dump()
        silent = explain_nothing_stated(kind, given, answer)
        if silent is not None:
            raise NothingStated(silent)
        self.verdicts.append(StatementVerdict(kind, given, answer))
        return model

    def request(self, prompt: str, response_model: type[BaseModel], begin: int, end: int) -> None:
        """Begin to request answers to a question, those that the grading lacks of `begin` to `end`, together."""
        kind = response_model.__name__
        missing = [place for place in range(begin, end) if (prompt, kind, place) not in self._grading.answers]
        if not missing:
            return
        sent, given = _read_input(prompt, kind)

        def check(text: str) -> BaseModel:
            return _check_answer(text, response_model, given)

        schema = response_model.model_json_schema()
        drawing = self._client.draw(sent, schema, check, self._metric, len(missing), missing[0])
        drawn = asyncio.ensure_future(drawing)
        for number, place in enumerate(missing):
            self._grading.add((prompt, kind, place), asyncio.ensure_future(_pick(drawn, number)))


async def _pick(drawn: Awaitable[Sequence[BaseModel]], number: int) -> BaseModel:
    return (await drawn)[number]


def _read_input(prompt: str, kind: str) -> tuple[str, Mapping[str, Any]]:
    """Return the prompt as it is sent, and its structured input; none in a free-text prompt."""
    return (prompt, {}) if kind == FREE_TEXT else parse_input(prompt)


class RagasEmbeddings(BaseRagasEmbedding):  # type: ignore[misc]
    """The embeddings for one score. Each text is embedded once.

    Some of ragas' metrics make synchronous calls within the event loop. Their texts must be fetched before.
    """

    def __init__(self, embedder: TextEmbedder) -> None:
        super().__init__()
        self._embedder = embedder
        self._known: dict[str, list[float]] = {}

    async def fetch(self, texts: Iterable[str]) -> None:
        """Embed the texts that are not known yet in one call."""
        unknown = [text for text in dict.fromkeys(texts) if text not in self._known]
        if unknown:
            rows = (await self._embedder.embed(unknown)).tolist()
            self._known |= dict(zip(unknown, rows, strict=True))

    def embed_text(self, text: str, **_options: Any) -> list[float]:
        """Return the vector of a text that was fetched.

        Raises:
            KeyError: the text was not fetched.
        """
        return self._known[text]

    async def aembed_text(self, text: str, **_options: Any) -> list[float]:
        """Return the vector of a text."""
        await self.fetch([text])
        return self._known[text]

    async def aembed_texts(self, texts: list[str], **_options: Any) -> list[list[float]]:
        """Return the vectors of several texts, in order."""
        await self.fetch(texts)
        return [self._known[text] for text in texts]


class _PlainPrompt(Prompt):  # type: ignore[misc]
    """A prompt without telemetry: ragas' own sends an event per use, and writes a user id to the home directory."""

    def format(self, **texts: str) -> str:
        instruction: str = self.instruction
        return instruction.format(**texts)


async def grade(
    ragas_class: str, fields: Mapping[str, Any], *, metric: str, client: ChatClient, embeddings: RagasEmbeddings | None
) -> Graded:
    """Return one score of a metric of `ragas.metrics.collections`. `fields`: the arguments of its `ascore`.

    Raises:
        JudgeError: there is no usable answer.
        NothingStated: as in ScoreJudge.
    """
    grading = CURRENT.get() or Grading()
    if not isinstance(fields.get("user_input", ""), str):
        fields = {**fields, "user_input": list(_read_messages(fields["user_input"]))}
    await ask_ahead(_create(ragas_class, ScoreJudge(client, metric, grading), embeddings), fields)
    judge = ScoreJudge(client, metric, grading)
    result = await _create(ragas_class, judge, embeddings).ascore(**fields)
    return Graded(float(result.value), tuple(judge.verdicts))


def _read_messages(messages: Iterable[Mapping[str, Any]]) -> Iterable[Any]:
    """Yield messages as ragas has them, which knows no others. A line of a text cannot pass for a message."""
    for one in messages:
        role, text = one["role"], one["content"].replace("\n", "\n  ")
        calls = [
            ToolCall(name=" ".join(name.split()), args=given if isinstance(given, dict) else {"arguments": given})
            for name, given in one.get("calls", ())
        ]
        if role == "user":
            yield HumanMessage(content=text)
        elif role == "tool":
            yield ToolMessage(content=text)
        elif role == "assistant":
            yield AIMessage(content=text, tool_calls=calls or None)


def _create(ragas_class: str, judge: ScoreJudge, embeddings: RagasEmbeddings | None) -> Any:
    parts = {"llm": judge} if embeddings is None else {"llm": judge, "embeddings": embeddings}
    return getattr(collections, ragas_class)(**parts)


async def grade_label(
    template: str, labels: Sequence[str], fields: Mapping[str, str | list[str]], *, metric: str, client: ChatClient
) -> tuple[str, str]:
    """Return the judge's label and its reason. `template` has the names of `fields`, which are foreign, in braces.

    Raises:
        JudgeError: there is no usable answer.
    """
    judge = ScoreJudge(client, metric, CURRENT.get() or Grading())
    quoted = {name: quote_foreign(value) for name, value in fields.items()}
    result = await _discrete_metric(metric, _QUOTED_TEXTS + template, tuple(labels)).ascore(llm=judge, **quoted)
    return str(result.value), str(result.reason)


@lru_cache(maxsize=64)
def _discrete_metric(name: str, template: str, labels: tuple[str, ...]) -> Any:
    """Return ragas' metric for a rubric. It builds a pydantic model and has no state, so it is cached."""
    return DiscreteMetric(name=name, prompt=_PlainPrompt(template), allowed_values=list(labels))


def _check_answer(text: str, response_model: type[BaseModel], given: Mapping[str, Any]) -> BaseModel:
    try:
        model = response_model.model_validate(extract_object(text))
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        where = ".".join(str(step) for step in first["loc"])
        raise UnusableVerdict(f"{where or 'the object'}: {first['msg'][:1].lower()}{first['msg'][1:]}") from None
    return response_model.model_validate(settle_answer(response_model.__name__, given, model.model_dump()))


async def list_statements(question: str, response: str, *, metric: str, client: ChatClient) -> list[str]:
    """Return the statements of a response from the first step of ragas' Faithfulness, without verdicts.

    Raises:
        JudgeError: there is no usable answer.
        NothingStated: as in ScoreJudge.
    """
    faithfulness = collections.Faithfulness(llm=ScoreJudge(client, metric, CURRENT.get() or Grading()))
    return [str(text) for text in await faithfulness._create_statements(question, response)]


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


async def _sort_topics(metric: Any, fields: Fields) -> None:
    talk = metric._format_conversation(fields["user_input"])
    topics = await _together(metric._extract_topics(talk))
    if topics is None or not topics[0]:
        return
    asked = (metric._check_topics_answered(talk, [topic]) for topic in topics[0])
    await _together(metric._classify_topics(fields["reference_topics"], topics[0]), *asked)


_STEPS: Mapping[str, Callable[[Any, Fields], Awaitable[None]]] = {
    "AnswerRelevancy": _ask_for_questions,
    "ContextPrecision": _ask_about_contexts,
    "AnswerCorrectness": _break_down_texts,
    "FactualCorrectness": _verify_claims,
    "NoiseSensitivity": _check_statements,
    "TopicAdherence": _sort_topics,
}
