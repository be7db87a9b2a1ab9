"""Between ragas and the judge: ragas writes the prompts and computes the scores, everything that it asks goes our way.

Imported only through `services.import_ragas`. ragas' metric objects are cheap and created for each score, with
a judge of its own that remembers the verdicts: so the evidence of scores that are computed at once cannot mix.
"""

from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Any

from pydantic import BaseModel, ValidationError
from ragas.embeddings.base import BaseRagasEmbedding
from ragas.llms.base import InstructorBaseRagasLLM
from ragas.metrics import DiscreteMetric, collections
from ragas.prompt.simple_prompt import Prompt

from evalspec.judge.chat import ChatClient
from evalspec.judge.embeddings import TextEmbedder
from evalspec.judge.extraction import UnusableVerdict, extract_object
from evalspec.judge.verdicts import (
    FREE_TEXT,
    Graded,
    NothingStated,
    StatementVerdict,
    explain_nothing_stated,
    parse_input,
    settle_answer,
)


class ScoreJudge(InstructorBaseRagasLLM):  # type: ignore[misc]
    """The judge as one score sees it."""

    def __init__(self, client: ChatClient, metric: str) -> None:
        self._client = client
        self._metric = metric
        self.verdicts: list[StatementVerdict] = []

    def generate(self, prompt: str, response_model: type[BaseModel]) -> BaseModel:
        """Not offered: no metric in use asks without awaiting."""
        raise TypeError(f"the judge is asked asynchronously, {response_model.__name__} was wanted of {prompt[:40]!r}")

    async def agenerate(self, prompt: str, response_model: type[BaseModel]) -> BaseModel:
        """One answer of the judge, checked against what was asked.

        Raises:
            JudgeError: no usable answer.
            NothingStated: a text of which verdicts were wanted has no statement.
        """
        kind = response_model.__name__
        given = {} if kind == FREE_TEXT else parse_input(prompt)

        def check(text: str) -> BaseModel:
            return _check_answer(text, response_model, given)

        schema = response_model.model_json_schema()
        model = await self._client.ask(prompt, schema, check, self._metric)
        answer = model.model_dump()
        silent = explain_nothing_stated(kind, given, answer)
        if silent is not None:
            raise NothingStated(silent)
        self.verdicts.append(StatementVerdict(kind, given, answer))
        return model


class RagasEmbeddings(BaseRagasEmbedding):  # type: ignore[misc]
    """The embeddings as one score sees them. Each text is embedded once.

    Some of ragas' metrics ask without awaiting, from within the event loop: such a text must have been fetched before.
    """

    def __init__(self, embedder: TextEmbedder) -> None:
        super().__init__()
        self._embedder = embedder
        self._known: dict[str, list[float]] = {}

    async def fetch(self, texts: Iterable[str]) -> None:
        """Embed those of the texts that are not known yet, in one go."""
        unknown = [text for text in dict.fromkeys(texts) if text not in self._known]
        if unknown:
            rows = (await self._embedder.embed(unknown)).tolist()
            self._known |= dict(zip(unknown, rows, strict=True))

    def embed_text(self, text: str, **_options: Any) -> list[float]:
        """The vector of a text that was fetched.

        Raises:
            KeyError: it was not.
        """
        return self._known[text]

    async def aembed_text(self, text: str, **_options: Any) -> list[float]:
        """The vector of a text."""
        await self.fetch([text])
        return self._known[text]

    async def aembed_texts(self, texts: list[str], **_options: Any) -> list[list[float]]:
        """The vectors of several texts, in their order."""
        await self.fetch(texts)
        return [self._known[text] for text in texts]


class _PlainPrompt(Prompt):  # type: ignore[misc]
    """ragas' own makes a telemetry event of each use, for which it writes a user id to the home directory."""

    def format(self, **texts: str) -> str:
        instruction: str = self.instruction
        return instruction.format(**texts)


async def grade(
    ragas_class: str, fields: Mapping[str, Any], *, metric: str, client: ChatClient, embeddings: RagasEmbeddings | None
) -> Graded:
    """One score of a metric of `ragas.metrics.collections`; `fields` are its ascore's.

    Raises:
        JudgeError: no usable answer.
        NothingStated: as in ScoreJudge.
    """
    judge = ScoreJudge(client, metric)
    parts = {"llm": judge} if embeddings is None else {"llm": judge, "embeddings": embeddings}
    result = await getattr(collections, ragas_class)(**parts).ascore(**fields)
    return Graded(float(result.value), tuple(judge.verdicts))


async def grade_label(
    template: str, labels: Sequence[str], fields: Mapping[str, str], *, metric: str, client: ChatClient
) -> tuple[str, str]:
    """The label that the judge chose, and its reason. `template` has the names of `fields` in braces.

    Raises:
        JudgeError: no usable answer.
    """
    judge = ScoreJudge(client, metric)
    result = await _discrete_metric(metric, template, tuple(labels)).ascore(llm=judge, **fields)
    return str(result.value), str(result.reason)


@lru_cache(maxsize=64)
def _discrete_metric(name: str, template: str, labels: tuple[str, ...]) -> Any:
    """It builds a pydantic model, and holds no state of a score."""
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
    """The first step of ragas' Faithfulness alone, for a response that there is nothing to check against.

    Raises:
        JudgeError: no usable answer.
        NothingStated: as in ScoreJudge.
    """
    faithfulness = collections.Faithfulness(llm=ScoreJudge(client, metric))
    return [str(text) for text in await faithfulness._create_statements(question, response)]
