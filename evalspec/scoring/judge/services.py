"""The judge and the embeddings of one run, opened at first use."""

import os
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence, Set
from functools import cached_property
from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, TypeVar

from evalspec.base.errors import InvalidInput, JudgeError, MissingPackage, install_fix
from evalspec.inputs.manifest.judge_schema import EmbeddingsConfig, JudgeConfig
from evalspec.model import Need
from evalspec.scoring.judge.grading import CURRENT, find_cacheable
from evalspec.scoring.judge.usage import JudgeListener, Learned, UsageLedger
from evalspec.targets.http.keys import KeyPlace

if TYPE_CHECKING:
    from asyncio import Lock

    from evalspec.scoring.judge.batch_records import BatchRecord
    from evalspec.scoring.judge.batches import Batches
    from evalspec.scoring.judge.budget import Budget
    from evalspec.scoring.judge.cache import JudgeCache, Question
    from evalspec.scoring.judge.chat import ChatClient
    from evalspec.scoring.judge.embeddings import TextEmbedder
    from evalspec.scoring.judge.verdicts import Graded

T = TypeVar("T")
_FAITHFULNESS = "Faithfulness"


class JudgeServices:
    """The services that judged metrics need. The constructor opens, loads and imports nothing.

    `cache`: results of earlier runs. With it, nothing is loaded or opened before the first question that it lacks.
    """

    def __init__(self, judge: JudgeConfig | None, embeddings: EmbeddingsConfig) -> None:
        self.usage = UsageLedger()
        self.listener = JudgeListener()
        self.cache: JudgeCache | None = None
        self.batches: Batches | None = None
        self._refused: Mapping[str, str] = {}
        self._judges = _list_members(judge)
        self._embeddings = embeddings
        self._chats: dict[int, ChatClient] = {}
        self._embedder: TextEmbedder | None = None
        self._ragas_ready = False
        self._keys: KeyPlace | None = None

    @cached_property
    def budget(self) -> "Budget":
        """What the judge may still be asked for. It has no limits until a run sets its own."""
        from evalspec.scoring.judge.budget import Budget

        return Budget(self.usage)

    @cached_property
    def _loading(self) -> "Lock":
        from asyncio import Lock

        return Lock()

    def configure(self, judge: JudgeConfig | None, embeddings: EmbeddingsConfig, keys: KeyPlace | None = None) -> None:
        """Replace the configs by ones with resolved references, before anything is opened."""
        self._judges, self._embeddings, self._keys = _list_members(judge), embeddings, keys

    def open_batches(
        self, run: str, records: "Iterable[BatchRecord]", keep: "Callable[[Sequence[BatchRecord]], None]"
    ) -> None:
        """Let the judge answer in batches. `run`: the run's id. `records`: its log so far, which `keep` writes to.

        Raises:
            JudgeError: the judge cannot answer in batches.
        """
        from evalspec.scoring.judge.batches import Batches

        if self._judge is not None:
            self.batches = Batches(run, records, keep, self._judge, self._keys)

    async def collect_batches(self, say: Callable[[str], None]) -> None:
        """Collect the judge's answers from batches that have ended. `say`: shows a message.

        Raises:
            JudgeError: the provider cannot be asked. Nothing was submitted.
        """
        if self.batches is not None:
            await self.batches.collect(say)

    async def submit_batches(self, say: Callable[[str], None]) -> None:
        """Submit what the judge was asked and is not answered yet. `say`: shows a message."""
        if self.batches is not None:
            await self.batches.submit(say)

    @property
    def embeddings(self) -> EmbeddingsConfig:
        """The configuration of the embeddings, with the references resolved that the run needs."""
        return self._embeddings

    def check_installed(self, needed_by: str, needs: frozenset[Need]) -> None:
        """Check that the packages behind these needs are installed, without importing them.

        Raises:
            MissingPackage: a package is missing.
        """
        if Need.JUDGE in needs and find_spec("ragas") is None:
            raise MissingPackage(needed_by, "ragas", "judge")
        local = Need.EMBEDDINGS in needs and self._embeddings.provider == "local"
        if local and find_spec("wordllama") is None:
            raise MissingPackage(f"{needed_by} with embeddings.provider: local", "wordllama", "local")

    async def preload(self, needs: Set[Need]) -> None:
        """Load the packages for these needs in threads, so that the event loop is not blocked.

        Raises:
            InvalidInput: a package is missing or broken.
        """
        if Need.EMBEDDINGS in needs:
            await self.embedder().load()
        if Need.JUDGE in needs:
            await self._load_ragas()

    async def _load_ragas(self) -> None:
        from asyncio import to_thread

        async with self._loading:
            if not self._ragas_ready:
                await to_thread(import_ragas)
                self._ragas_ready = True

    def embedder(self) -> "TextEmbedder":
        """Return the embedder. The first call creates it.

        Raises:
            JudgeError: the base url is not usable.
        """
        if self._embedder is None:
            from evalspec.scoring.judge.embeddings import create_embedder

            self._embedder = create_embedder(self._embeddings, self.cache, self._keys)
        return self._embedder

    async def grade(
        self, ragas_class: str, fields: Mapping[str, Any], *, metric: str, embedded: Sequence[str] = ()
    ) -> "Graded":
        """Return one score of a metric of `ragas.metrics.collections`. `fields`: the arguments of its `ascore`.

        `metric`: the metric to count the usage for. `embedded`: the fields to embed in advance. Without any, the metric
        gets no embeddings.

        Raises:
            JudgeError: the judge or the embeddings failed.
            NothingStated: the judge found no statement in a text to give verdicts on.
            InvalidInput: ragas is missing or broken.
        """
        from evalspec.scoring.judge.cached_answers import ask_for_score

        async def ask() -> "Graded":
            chat = await self._open_judge()
            from evalspec.scoring.judge import ragas_adapter

            embeddings = None
            if embedded:
                embeddings = ragas_adapter.RagasEmbeddings(self.embedder())
                await embeddings.fetch(fields[name] for name in embedded)
            return await ragas_adapter.grade(ragas_class, fields, metric=metric, client=chat, embeddings=embeddings)

        settings = self._describe(ragas_class, is_embedded=bool(embedded))
        return await self._recall(ask_for_score(metric, settings, fields, embedded), ask)

    async def grade_label(
        self, template: str, labels: Sequence[str], fields: Mapping[str, str | list[str]], *, metric: str
    ) -> tuple[str, str]:
        """Return the label that the judge chooses through ragas' DiscreteMetric, and its reason.

        Raises:
            JudgeError: the judge failed.
            InvalidInput: ragas is missing or broken.
        """
        from evalspec.scoring.judge.cached_answers import ask_for_label

        async def ask() -> tuple[str, str]:
            chat = await self._open_judge()
            from evalspec.scoring.judge import ragas_adapter

            return await ragas_adapter.grade_label(template, labels, fields, metric=metric, client=chat)

        return await self._recall(ask_for_label(metric, self._describe(""), template, labels, fields), ask)

    async def aclose(self) -> None:
        """Close the connections and the cache."""
        if self.cache is not None:
            self.cache.close()
        for opened in (*self._chats.values(), self._embedder, self.batches):
            if opened is not None:
                await opened.aclose()

    async def _open_judge(self) -> "ChatClient":
        self.budget.check()  # before anything is loaded
        await self._load_ragas()
        if self._judge is None:
            raise JudgeError("no judge is configured; set spec.evaluation.judge", fatal=True)
        chat = self._chats.get(self._member)
        if chat is None:
            from evalspec.scoring.judge.chat import ChatClient, find_role

            listener = JudgeListener(self._learn, self.listener.waits)
            ledger = self.usage if self.batches is None else UsageLedger()  # batches count by themselves, once
            chat = self._chats[self._member] = ChatClient(
                self._judge, ledger, listener, self.cache, self._keys, self.budget, self.batches,
                find_role(self._member),
            )  # fmt: skip
        return chat

    @property
    def _member(self) -> int:
        """The number of the judge that the running task asks, of a panel."""
        grading = CURRENT.get()
        return 0 if grading is None else grading.member

    @property
    def _judge(self) -> JudgeConfig | None:
        return self._judges[self._member] if self._judges else None

    def _learn(self, learned: Learned) -> None:
        """Tell what a reply says about the judge, also the grading that it belongs to."""
        self._refused = learned.get("judge_refused", self._refused)
        grading = CURRENT.get()
        if grading is not None:
            grading.learn(learned)
        self.listener.learns(learned)

    def _describe(self, ragas_class: str, *, is_embedded: bool = False) -> dict[str, Any]:
        """Return all that results depend on besides texts: the judge, the embeddings, and the code of the metric."""
        if self.cache is None or self._judge is None:
            return {}
        from evalspec.scoring.judge.cache import digest_installed, digest_scorer
        from evalspec.scoring.judge.parameters import compute_effective_parameters, identify_model

        judge, embeddings = self._judge, self._embeddings
        local = digest_installed("wordllama") if embeddings.provider == "local" else ""
        place = [embeddings.provider, *identify_model(embeddings), local]
        return {
            "scorer": [ragas_class, digest_scorer(ragas_class)],
            "judge": [judge.wire, *identify_model(judge), compute_effective_parameters(judge)],
            "embeddings": place if is_embedded else None,
        }

    async def _recall(self, question: "Question[T]", ask: Callable[[], Awaitable[T]]) -> T:
        """Return a result from the cache, or ask. What belongs to no reply of a run is always asked."""
        grading = find_cacheable()
        if self.cache is None or self._judge is None or grading is None:
            return await ask()
        grading.learn({"judge_refused": self._refused} if self._refused else {})
        return await self.cache.recall(question, grading, ask)

    async def list_statements(self, question: str, response: str, *, metric: str) -> list[str]:
        """Return the statements of a response, as the judge lists them for ragas' Faithfulness.

        Raises:
            JudgeError: the judge failed.
            NothingStated: the judge found no statement.
            InvalidInput: ragas is missing or broken.
        """
        from evalspec.scoring.judge.cached_answers import ask_for_statements

        async def ask() -> list[str]:
            chat = await self._open_judge()
            from evalspec.scoring.judge import ragas_adapter

            return await ragas_adapter.list_statements(question, response, metric=metric, client=chat)

        return await self._recall(ask_for_statements(metric, self._describe(_FAITHFULNESS), question, response), ask)

    async def judge_claims(
        self, question: str, response: str, claims: Sequence[str], *, metric: str
    ) -> list[tuple[str, str, str]]:
        """Return each claim in their order, the judge's reason, and its verdict: entailed, contradicted or missing.

        Raises:
            JudgeError: the judge failed.
            InvalidInput: ragas is missing or broken.
        """
        from evalspec.scoring.judge.cached_answers import ask_about_claims

        async def ask() -> list[tuple[str, str, str]]:
            chat = await self._open_judge()
            from evalspec.scoring.judge.entailment import judge_claims

            judged = await judge_claims(question, response, claims, metric=metric, client=chat)
            return [(item.statement, item.reason, str(item.verdict)) for item in judged]

        return await self._recall(ask_about_claims(metric, self._describe(""), question, response, claims), ask)


def _list_members(judge: JudgeConfig | None) -> list[JudgeConfig]:
    return [] if judge is None else judge.members


def import_ragas() -> None:
    """Import ragas and the adapter to the judge: 5 to 10 seconds of CPU, once per process.

    By default ragas posts an event for each judge call, and blocks meanwhile. The environment variable turns this off.
    ragas reads the variable once, so it must be set before the import.

    Raises:
        MissingPackage: ragas is not installed.
        InvalidInput: ragas is installed but cannot be imported, for example with newer releases of its dependencies.
    """
    os.environ["RAGAS_DO_NOT_TRACK"] = "true"
    try:
        import_module("evalspec.scoring.judge.ragas_adapter")
    except ModuleNotFoundError as error:
        if error.name == "ragas":
            raise MissingPackage("a judged metric", "ragas", "judge") from error
        raise _unusable(error) from error
    except Exception as error:
        raise _unusable(error) from error


def _unusable(error: Exception) -> InvalidInput:
    line = " ".join(f"{type(error).__name__}: {error}".split())
    fix = f"{install_fix('judge')} installs releases that work together"
    return InvalidInput(f"ragas is installed but cannot be imported: {line}", fix)
