"""One input of a subject: made from its number, run, and judged by the rules; a failing one is written to a folder."""

import json
import shlex
import shutil
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from fuzz.mutations import BYTE_CHANGES, FILE_CHANGES, change_value, mutate, write_json
from fuzz.rules import find_violations
from fuzz.subjects import SUBJECTS, Command, Subject, Target
from servers.faulty_agent import Answer, FaultyAgent
from servers.faulty_retriever import FaultyRetriever
from servers.scripted_judge import embed
from stored_log import seal_inputs
from warm.command import JUDGED, Ended, WarmCommand

_FILE_SHARE = 0.06
"""Of the inputs whose file is not there, or no file."""
_MOST_KEPT = 3
_AGENT_REPLY = {
    "response": "Thing s0",
    "contexts": [{"id": "ds0", "text": "There is thing s0."}],
    "usage": {"input_tokens": 3, "output_tokens": 2},
    "tool_calls": [{"name": "f", "arguments": {}}],
    "finish": "stop",
}
_OPENAI_REPLY = {
    "choices": [{"index": 0, "message": {"role": "assistant", "content": "Thing s0"}, "finish_reason": "stop"}],
    "usage": {"prompt_tokens": 3, "completion_tokens": 2},
}
_CONTENT_TYPES = (
    "application/json",
    "text/event-stream",
    "text/html",
    "",
    "application/json; charset=x",
    "\xff",
    "text/plain",
)
_HEADERS: tuple[dict[str, str], ...] = (
    {"Content-Encoding": "gzip"}, {"Content-Encoding": "br"}, {"Content-Encoding": "x"}, {"Retry-After": "x"},
    {"Retry-After": "-1"}, {"Retry-After": "9" * 400}, {"Location": "http://["}, {"Set-Cookie": "a\x01=b"},
    {"X": "x" * 60_000}, {"Content-Length": "-1"}, {"Transfer-Encoding": "chunked"}, {"Content-Type": "a\xffb"},
)  # fmt: skip
_STATUSES = (200, 200, 200, 204, 206, 299, 301, 302, 400, 401, 404, 408, 413, 425, 429, 499, 500, 503, 599, 600, 999)


@dataclass(frozen=True)
class Finding:
    """An input that breaks a rule."""

    subject: str
    number: int
    violation: str
    changes: list[str]
    command: Command

    def __str__(self) -> str:
        again = f"PYTHONPATH=tests python -m fuzz {shlex.quote(self.subject)} {self.number}"
        lines = (f"evalspec {shlex.join(self.command)[:300]}", "; ".join(self.changes)[:300], again)
        return "\n    ".join((self.violation, *lines))


class Replies:
    """Servers on loopback whose answers are changed as the input says: `change` is given each answer in its turn."""

    def __init__(self) -> None:
        self.change: Callable[[Answer], Answer] = lambda answer: answer
        self._servers = {"agent": _Changed(self), "retriever": _ChangedRetriever(self), "judge": _ChangedJudge(self)}

    def __enter__(self) -> "Replies":
        for server in self._servers.values():
            server.__enter__()
        return self

    def __exit__(self, *_exception: object) -> None:
        for server in self._servers.values():
            server.stop()

    def begin(self, kind: str, change: Callable[[Answer], Answer]) -> str:
        """Answer as a kind of server does, changed; gives its url."""
        server = self._servers.get(kind, self._servers["agent"])
        server.requests.clear()
        server.mode = "sse_openai" if kind == "stream" else "ok"
        server.reply = _OPENAI_REPLY if kind == "openai" else _AGENT_REPLY
        if isinstance(server, FaultyRetriever):
            server.documents = {}
        self.change = change
        return server.url


class _Changed(FaultyAgent):
    def __init__(self, replies: Replies) -> None:
        super().__init__()
        self._replies = replies

    def answer(self, mode: str | Answer, body: Any) -> Answer:
        return self._replies.change(super().answer(mode, body))


class _ChangedRetriever(FaultyRetriever):
    def __init__(self, replies: Replies) -> None:
        super().__init__()
        self._replies = replies

    def answer(self, mode: str | Answer, body: Any) -> Answer:
        return self._replies.change(super().answer(mode, body))


class _ChangedJudge(_Changed):
    """Answers ragas' prompts of faithfulness, a rubric, and requests for embeddings."""

    def answer(self, mode: str | Answer, body: Any) -> Answer:
        if "input" in body:
            texts = [body["input"]] if isinstance(body["input"], str) else body["input"]
            vectors = [{"index": place, "embedding": embed(text)[:16]} for place, text in enumerate(texts)]
            return self._replies.change(Answer(body=json.dumps({"object": "list", "data": vectors}).encode()))
        prompt = body["messages"][-1]["content"]
        if prompt.startswith("Given a question and an answer, analyze"):
            verdict: Any = {"statements": ["It is thing s0.", "It is a thing."]}
        elif prompt.startswith("Your task is to judge"):
            found = json.loads(prompt.rpartition("\ninput: ")[2].rpartition("\nOutput:")[0])["statements"]
            verdict = {"statements": [{"statement": one, "reason": "so", "verdict": 1} for one in found]}
        else:
            verdict = {"reason": "so", "value": "good"}
        choice = {"index": 0, "message": {"role": "assistant", "content": json.dumps(verdict)}, "finish_reason": "stop"}
        reply = {
            "object": "chat.completion",
            "choices": [choice],
            "usage": {"prompt_tokens": 3, "completion_tokens": 4},
        }
        return self._replies.change(Answer(body=json.dumps(reply).encode()))


@dataclass
class Workshop:
    """Templates of all subjects, the warm processes and the servers. `folder` is emptied by whoever made it."""

    folder: Path
    findings: Path
    replies: Replies = field(default_factory=Replies)
    _warm: dict[bool, WarmCommand] = field(default_factory=dict)
    _kept: dict[str, int] = field(default_factory=dict)
    changes: list[str] = field(default_factory=list)

    def __enter__(self) -> "Workshop":
        self.replies.__enter__()
        return self

    def __exit__(self, *_exception: object) -> None:
        for warm in self._warm.values():
            warm.__exit__()
        self.replies.__exit__()

    def evalspec(self, *, is_judged: bool) -> WarmCommand:
        """The warm process; the one of judged metrics has imported ragas too."""
        if is_judged not in self._warm:
            self._warm[is_judged] = WarmCommand(self.folder, JUDGED) if is_judged else WarmCommand(self.folder)
        return self._warm[is_judged]

    def try_input(self, name: str, number: int) -> list[Finding]:
        """Make an input, run its commands, and say which rules were broken."""
        subject = SUBJECTS[name]
        work = self.folder / "work"
        sequence, environment = self._make(name, number, work)
        found = []
        for command in sequence:
            ended = self.evalspec(is_judged=subject.is_judged)(work, *command, environment=environment)
            violations = list(find_violations(ended, as_json="--json" in command and not _is_help(command)))
            if command != sequence[0] and sequence[0][0] == "convert" and ended.code != 0:
                violations.append("round trip: what was written is refused: " + _first_line(ended))
            found += [Finding(name, number, violation, list(self.changes), command) for violation in violations]
            for violation in violations:
                self._keep(name, number, violation, sequence, ended)
            if ended.code not in (0, 1):
                break
        return found

    def try_unchanged(self, name: str) -> Iterator[Ended]:
        """How the commands of a subject end where nothing is changed."""
        subject, work = SUBJECTS[name], self.folder / "work"
        for sequence in subject.commands:
            shutil.rmtree(work, ignore_errors=True)
            shutil.copytree(self._template(name), work, symlinks=True)
            url = self.replies.begin(subject.replies, lambda answer: answer)
            for command in sequence:
                yield self.evalspec(is_judged=subject.is_judged)(work, *command, environment={"AGENT_URL": url})

    def _template(self, name: str) -> Path:
        folder = self.folder / "templates" / name.replace(" ", "-")
        if not folder.exists():
            subject = SUBJECTS[name]
            folder.mkdir(parents=True)
            subject.write(folder)
            for command in subject.made_by:
                ended = self.evalspec(is_judged=False)(folder, *command)
                assert ended.code in (0, 1), ended
        return folder

    def _make(self, name: str, number: int, work: Path) -> tuple[list[Command], dict[str, str]]:
        subject, chance = SUBJECTS[name], Random(f"{name}:{number}")
        template = self._template(name)
        shutil.rmtree(work, ignore_errors=True)
        shutil.copytree(template, work, symlinks=True)
        self.changes = []
        environment = dict(subject.environment)
        if subject.replies:
            environment["AGENT_URL"] = self.replies.begin(subject.replies, self._change_answers(subject, chance))
        if subject.targets:
            self._change_file(chance.choice(subject.targets), chance, work)
        if subject.arguments is not None:
            return [subject.arguments(chance)], environment
        return list(chance.choice(subject.commands)), environment

    def _change_file(self, target: Target, chance: Random, work: Path) -> None:
        path = chance.choice(sorted(path for path in work.glob(target.pattern) if path.is_file()))
        if chance.random() < _FILE_SHARE:
            change = chance.choice(list(FILE_CHANGES))
            FILE_CHANGES[change](path)
        else:
            content, changes = (
                change_table(chance, path.read_bytes())
                if target.kind == "parquet"
                else mutate(target.kind, chance, path.read_bytes())
            )
            if target.seal is not None:
                content = target.seal(content)
            path.write_bytes(content)
            if target.seal is not None and path.name == "inputs.jsonl":
                seal_inputs(path.parent)
            change = "; ".join(changes)
        self.changes.append(f"{path.relative_to(work)}: {change}")

    def _change_answers(self, subject: Subject, chance: Random) -> Callable[[Answer], Answer]:
        """From one answer on, all are changed; so that the same input has the same answers."""
        first, seen, lock = chance.choice([0, 0, 0, 1, 2, 3]), iter(range(10_000)), threading.Lock()

        def change(answer: Answer) -> Answer:
            with lock:
                if next(seen) < first:
                    return answer
                changed, names = change_answer(chance, answer, inner=subject.is_judged)
                self.changes.append("answer: " + "; ".join(names))
                return changed

        return change

    def _keep(self, name: str, number: int, violation: str, sequence: list[Command], ended: Ended) -> None:
        """Write the input to a folder, with the way to run it again; of alike ones the first few."""
        self._kept[violation] = self._kept.get(violation, 0) + 1
        if self._kept[violation] > _MOST_KEPT:
            return
        changes = list(self.changes)
        folder = self.findings / f"{name.replace(' ', '-').replace(',', '')}-{number}"
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        self._make(name, number, folder / "input")
        lines = [
            f"violation: {violation}",
            f"changes: {'; '.join(changes)}",
            f"again: PYTHONPATH=tests python -m fuzz {shlex.quote(name)} {number}",
            "or, in the folder input where the input is a file:",
            *(f"  EVALSPEC_DEBUG=1 evalspec {shlex.join(command)}" for command in sequence),
            f"exit code {ended.code}, {ended.cpu_seconds:.2f} s of CPU, {ended.peak_mib:.0f} MiB",
        ]
        (folder / "README").write_text("\n".join(lines) + "\n", encoding="utf-8", errors="backslashreplace")
        (folder / "stdout").write_bytes(ended.out)
        (folder / "stderr").write_bytes(ended.err)


def _is_help(command: Command) -> bool:
    return not {"-h", "--help", "--version"}.isdisjoint(command)


def _first_line(ended: Ended) -> str:
    lines = ended.err.decode("utf-8", "replace").splitlines()
    line = next((line for line in lines if line.startswith("evalspec: ")), "")
    return "".join(character for character in line.partition(": ")[2] if not character.isdigit())[:60]


def change_table(chance: Random, content: bytes) -> tuple[bytes, list[str]]:
    """A parquet file with other values or types in its columns, or with other bytes."""
    if chance.random() < 0.3:
        name = chance.choice(["flip bits", "cut", "cut out", "double", "empty", "insert", "scalar"])
        return BYTE_CHANGES[name](chance, content), [name]
    rows, names = change_value(chance, pq.read_table(pa.BufferReader(content)).to_pylist())
    sink = pa.BufferOutputStream()
    with suppress(pa.ArrowException, OverflowError, AttributeError, TypeError, ValueError, RecursionError):
        plain = json.loads(write_json(rows))
        pq.write_table(pa.Table.from_pylist(plain), sink)
        return sink.getvalue().to_pybytes(), names
    return BYTE_CHANGES["flip bits"](chance, content), ["flip bits"]


def change_answer(chance: Random, answer: Answer, *, inner: bool) -> tuple[Answer, list[str]]:
    """Another body, status or header; `inner`: maybe what is inside the text of a completion."""
    names: list[str] = []
    body = answer.body
    kind = "binary" if answer.content_type.startswith("text/event-stream") else "json"
    if inner and chance.random() < 0.5 and b'"choices"' in body:
        reply = json.loads(body)
        message = reply["choices"][0]["message"]
        content, names = mutate("json", chance, message["content"].encode())
        message["content"] = content.decode("utf-8", "replace")
        body = json.dumps(reply).encode()
    elif kind == "binary" and chance.random() < 0.7:
        body, names = _change_events(chance, body)
    elif chance.random() < 0.9:
        body, names = mutate(kind, chance, body)
    changed = replace(answer, body=body)
    if chance.random() < 0.15:
        changed = replace(changed, status=chance.choice(_STATUSES))
        names.append(f"status {changed.status}")
    if chance.random() < 0.15:
        changed = replace(changed, headers=chance.choice(_HEADERS))
        names.append(f"headers {str(changed.headers)[:60]}")
    if chance.random() < 0.1:
        changed = replace(changed, content_type=chance.choice(_CONTENT_TYPES))
        names.append(f"type {changed.content_type!r}")
    if chance.random() < 0.05:
        changed = replace(changed, cut=True)
        names.append("cut off")
    return changed, names


def _change_events(chance: Random, body: bytes) -> tuple[bytes, list[str]]:
    events = [event for event in body.split(b"\n\n") if event]
    place = chance.randrange(len(events))
    data = events[place].removeprefix(b"data: ")
    changed, names = mutate("json" if data.startswith(b"{") else "binary", chance, data)
    prefix = chance.choice(
        [b"data: ", b"data: ", b"data: ", b"data:", b"event: error\ndata: ", b"id: \0\ndata: ", b"retry: x\n", b""]
    )
    events[place] = prefix + changed
    return b"\n\n".join(events) + b"\n\n", [f"event {place}: {name}" for name in names]


def spread(count: int) -> Iterator[tuple[str, int]]:
    """How many inputs each subject has."""
    whole = sum(subject.weight for subject in SUBJECTS.values())
    for name, subject in SUBJECTS.items():
        yield name, max(1, round(count * subject.weight / whole))
