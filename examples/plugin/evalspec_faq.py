"""What a help desk with a list of frequent questions adds to evalspec. Everything it imports is stable."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import httpx

from evalspec.api.plugins import (
    AgentReply,
    ChatEndpoint,
    DatasetContent,
    DatasetFormat,
    Document,
    Exchange,
    ExportConfig,
    Exporter,
    Hit,
    JudgeChoice,
    JudgeQuestion,
    JudgeReply,
    JudgeWire,
    Problem,
    ReadingNotes,
    Reporter,
    Retrieval,
    Run,
    Sample,
    SearchRequest,
    ServiceError,
    Source,
    StoredExchanges,
    Wire,
    Written,
    inert,
    metric,
)


@metric
def cites_source(exchange: Exchange, *, at_least: int = 1) -> bool:
    """Whether the answer cites sources, such as [1]."""
    return len(set(re.findall(r"\[\d+\]", exchange.response))) >= at_least


def _read(source: Source, notes: ReadingNotes) -> Iterator[Sample]:
    """Read a line with `Q:` and a line with `A:` for each question. What is wrong is noted, and nothing is raised."""
    question, asked_at = "", 0
    for number, line in enumerate(source.path.read_text(encoding="utf-8", errors="replace").splitlines(), 1):
        mark, text = line[:2], line[2:].strip()
        if mark == "Q:" and text and not question:
            question, asked_at = text, number
        elif mark == "A:" and text and question:
            yield Sample(f"q{asked_at}", question, (text,), line=asked_at)
            question = ""
        elif line.strip():
            notes.problems.append(Problem("expected Q: and then A:", "add it", source.shown_as, number))
    if question:
        notes.problems.append(Problem("the last question has no answer", "add A:", source.shown_as, asked_at))


def _recognise(path: Path, head: bytes) -> bool:
    return path.suffix == ".faq" and head.startswith(b"Q:")


def _list_losses(content: DatasetContent) -> list[str]:
    tagged = sum(bool(sample.tags) for sample in content.samples)
    return [f"tags ({tagged} of {len(content.samples)} samples)"] if tagged else []


def _write(content: DatasetContent, path: Path) -> Written:
    texts = [f"Q: {sample.question}\nA: {sample.references[0]}\n" for sample in content.samples]
    path.write_text("\n".join(texts), encoding="utf-8")
    return Written(len(texts))


FAQ = DatasetFormat(
    "faq", "frequent questions: a line Q: and a line A: each", _read, _recognise, _list_losses, _write
)  # fmt: skip


def _render(run: Run, _exchanges: StoredExchanges) -> str:
    limits = [(dataset.name, limit) for dataset in run.datasets for limit in dataset.thresholds]
    lines = [
        f"{'ok' if limit.status == 'PASS' else 'not ok'} {number} - {inert(name)}: {inert(limit.metric)}"
        for number, (name, limit) in enumerate(limits, 1)
    ]
    return "\n".join([f"1..{len(limits)}", *lines, ""])


TAP = Reporter("tap", (".tap",), _render)


async def _tell_chat(run: Run, _exchanges: StoredExchanges, to: ExportConfig) -> str:
    """Post the verdict to the webhook of a chat."""
    said = {"text": f"{to.name or 'evalspec'}: {run.verdict}, run {run.id}"}
    async with httpx.AsyncClient(headers=to.headers, timeout=to.timeout_seconds) as client:
        response = await client.post(to.url, json=said)
    if response.is_error:
        raise ServiceError(f"the chat answered {response.status_code}")
    return "the verdict to the chat"


CHAT = Exporter("chat", _tell_chat)


def _build_request(sample: Sample, _endpoint: ChatEndpoint) -> Any:
    return {"question": sample.question}


def _read_reply(value: Any) -> AgentReply:
    if not isinstance(value, dict) or not isinstance(value.get("answer"), str):
        raise ServiceError("expected an object with text at `answer` in the reply")
    return AgentReply(value["answer"])


HELPDESK = Wire("helpdesk", "a question, and an answer", _build_request, _read_reply, path="/ask")


def _build_grading(question: JudgeQuestion) -> dict[str, Any]:
    """The instructions come first and the sample last, so that the server may cache the beginning."""
    turns = [f"{message['role']}: {message['content']}" for message in question.messages]
    return {"grader": question.model, "text": "\n\n".join(turns), **question.parameters}


def _read_grading(reply: Mapping[str, Any]) -> JudgeReply:
    graded = reply.get("graded")
    return JudgeReply([JudgeChoice(graded)] if isinstance(graded, str) else [], stated={"model": reply.get("grader")})


GRADER = JudgeWire("helpdesk", "the grader of the help desk", "grade", _build_grading, _read_grading)


class SharedWords:
    """Ranks documents by the words that they share with the query."""

    def __init__(self, shortest: int) -> None:
        self._shortest = shortest
        self._words: dict[str, tuple[str, set[str]]] = {}  # by address: id and words

    def _split(self, text: str) -> set[str]:
        return {word for word in re.findall(r"\w+", text.casefold()) if len(word) >= self._shortest}

    async def ingest(self, documents: Sequence[Document], scope_prefix: str) -> Sequence[str]:
        for document in documents:
            self._words[scope_prefix + document.id] = (document.id, self._split(document.text))
        return ()

    async def delete(self, scope_prefix: str) -> None:
        self._words = {key: value for key, value in self._words.items() if not key.startswith(scope_prefix)}

    async def search(self, request: SearchRequest) -> Retrieval:
        wanted = self._split(request.query)
        inside = [value for key, value in self._words.items() if key.startswith(request.scope_prefix)]
        hits = [Hit(name, score=float(len(wanted & words))) for name, words in inside if wanted & words]
        return Retrieval(tuple(sorted(hits, key=lambda hit: (-(hit.score or 0), hit.id))[: request.top_k]))

    async def aclose(self) -> None:
        """Nothing is open."""


def register_retriever(registry: Any) -> None:
    registry.add("shared_words", lambda options, _vectors: SharedWords(options.model_extra.get("shortest", 3)))
