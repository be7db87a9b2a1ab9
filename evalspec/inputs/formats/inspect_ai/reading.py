"""Read a log of Inspect as a run: each epoch is an attempt, and each value of a scorer is a score.

Letters count as in Inspect's own means: C is 1, P is 0.5, I and N (no answer) are 0. What is no number is a failed
score, such as NaN, which Inspect writes where a scorer scored nothing.

The keys were read in inspect_ai/log/_log.py, scorer/_metric.py and model/_model_output.py of release 0.3.285.
"""

import json
import zipfile
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from copy import copy
from importlib import import_module
from pathlib import Path
from typing import Annotated, Any, TypeVar

import msgspec
from msgspec import Meta, Struct

from evalspec.base.errors import InvalidInput, MissingPackage, Problem
from evalspec.base.json_text import compute_digest
from evalspec.base.jsonl import is_too_deep
from evalspec.base.plural import counted
from evalspec.inputs.datasets.base import ForeignMetric, ForeignRun, Malformed
from evalspec.inputs.logs import UNIT, UNKNOWN, fail_all, list_notes, score_number, shorten
from evalspec.model import AgentReply, Cause, Exchange, Message, Sample, Score, StoredExchange
from evalspec.model.base import built
from evalspec.model.exchanges import compute_question_digest
from evalspec.model.fingerprints import AgentDigest, DatasetDigest, Fingerprint, Repeats
from evalspec.model.typed_json import convert

_MOST_BYTES = 64 * 1_048_576
_ZSTD = 93
_WINDOW = 128 * 1_048_576
"""How much memory zstd may take to unpack a member."""
_DAMAGES = (zipfile.BadZipFile, OSError, RuntimeError, ValueError)
"""What zipfile raises for files that are damaged, encrypted or packed in an unknown way."""
_FIX = "the file is damaged, or is not from Inspect"
_VERSION = 2
_LETTERS = {"C": 1.0, "P": 0.5, "I": 0.0, "N": 0.0}
_OF_UNIT = ("f1",)
"""Inspect's own scorers whose numbers are from 0 to 1."""
_MOST_ATTEMPTS = 1_000_000
_JUDGED = "model_graded"
_ATTACHED = "attachment://"

_Text = str | list[Any] | None
"""A text, or the parts of a message. Some parts have a text."""


class _Message(Struct, frozen=True):
    """One message of a conversation."""

    role: str = "user"
    content: _Text = None


class _Choice(Struct, frozen=True):
    """One answer of the model."""

    message: _Message = _Message()
    stop_reason: str | None = None


class _Output(Struct, frozen=True):
    """What the model answered at the end."""

    choices: list[_Choice] = []
    completion: str | None = None


class _Failure(Struct, frozen=True):
    """Why a sample or the evaluation ended early."""

    message: str = ""


class _Value(Struct, frozen=True):
    """The score of one scorer. `value`: a number, a letter, true or false, or several of them by name."""

    value: Any = None
    explanation: str | None = None


class _LoggedSample(Struct, frozen=True):
    """One epoch of a sample. `attachments`: long texts, by what stands for them."""

    id: int | str
    epoch: Annotated[int, Meta(ge=1)] = 1
    input: str | list[_Message] = ""
    target: str | list[str] = ""
    choices: list[str] | None = None
    output: _Output = _Output()
    scores: Mapping[str, _Value] | None = None
    metadata: Mapping[str, Any] = {}
    error: _Failure | None = None
    attachments: Mapping[str, str] = {}


class _Described(Struct, frozen=True):
    """A dataset. `sample_ids`: those to evaluate, after limits."""

    sample_ids: list[int | str] | None = None


class _Config(Struct, frozen=True):
    """How the samples were run."""

    epochs: Annotated[int, Meta(ge=1)] | None = None


class _Scorer(Struct, frozen=True):
    """A scorer with its options."""

    name: str
    options: Any = None


class _Evaluation(Struct, frozen=True):
    """What was evaluated."""

    task: str
    model: str
    created: str | None = None
    task_args: Any = None
    model_args: Any = None
    model_generate_config: Any = None
    dataset: _Described = _Described()
    config: _Config = _Config()
    packages: Mapping[str, str] = {}
    scorers: list[_Scorer] | None = None


class _Header(Struct, frozen=True):
    """A log without its samples. `status`: `success`, or how the evaluation ended. `plan`: solvers and prompts."""

    version: Any
    eval: _Evaluation
    status: str = "started"
    plan: Any = None
    error: _Failure | None = None
    invalidated: bool = False


class _Log(_Header, frozen=True):
    """A log in one JSON document."""

    samples: list[_LoggedSample] | None = None


Kind = TypeVar("Kind", bound=msgspec.Struct)


def read_inspect(path: Path, shown_as: str) -> ForeignRun:
    """Return the run in a log.

    Raises:
        InvalidInput: The log cannot be read.
        Malformed: Its content is impossible.
    """
    if path.suffix.casefold() != ".eval":
        log = _parse(path.read_bytes(), _Log, shown_as)
        return _build(log, log.samples or [])
    with open_archive(path, shown_as) as file:
        archive = Archive(file, shown_as)
        return _build(_read_header(archive, shown_as), [*_read_samples(archive, shown_as)])


def _read_header(archive: "Archive", shown_as: str) -> _Header:
    """Return the header; that of the beginning if the evaluation has not ended."""
    members = {member.filename: member for member in archive.members}
    found = members.get("header.json") or members.get("_journal/start.json")
    if found is None:
        raise InvalidInput(Problem("has neither header.json nor _journal/start.json", "use a log of Inspect", shown_as))
    return _parse(archive.read(found), _Header, f"{shown_as}: {found.filename}")


def _read_samples(archive: "Archive", shown_as: str) -> Iterator[_LoggedSample]:
    for member in archive.members:
        if member.filename.startswith("samples/"):
            yield _parse(archive.read(member), _LoggedSample, f"{shown_as}: {member.filename}")


def _parse(content: bytes, kind: type[Kind], shown_as: str) -> Kind:
    """Return a document as a record. Constants that are not JSON become texts, such as "NaN".

    Raises:
        InvalidInput: It is not JSON, or a value is invalid.
    """
    try:
        return msgspec.json.decode(content, type=built(kind))
    except (msgspec.MsgspecError, UnicodeEncodeError, RecursionError):
        pass  # the slower path below accepts NaN, and has better error messages
    try:
        return convert(json.loads(content, parse_constant=str), kind, shown_as)
    except (ValueError, RecursionError) as error:
        raise InvalidInput(Problem(f"not valid JSON: {error}", "copy the log again", shown_as)) from error


def _build(header: _Header, samples: list[_LoggedSample]) -> ForeignRun:
    if header.version != _VERSION:
        raise Malformed(f"version {header.version!r:.20} of the log is not supported; supported: {_VERSION}", "version")
    if not samples:
        raise Malformed("the log has no samples, so there are no scores to read", "samples")
    done = header.eval
    epochs = max(done.config.epochs or 1, *(sample.epoch for sample in samples))
    metrics = _find_metrics(samples, done)
    exchanges = [_to_stored_exchange(sample, done.task, metrics) for sample in samples]
    return ForeignRun(
        done.task,
        _complete(done, epochs, exchanges, metrics),
        fingerprint=_describe(header, epochs, metrics),
        notes=[f"{counted(epochs, 'epoch')} of each sample", *list_notes(metrics)],
        metrics=metrics,
        unfinished=_explain_end(header),
    )


def _explain_end(header: _Header) -> str | None:
    if header.invalidated:
        return "it is marked as invalidated"
    said = f": {header.error.message}" if header.error else ""
    return None if header.status == "success" else shorten(f"its status is {header.status}{said}")


def _describe(header: _Header, epochs: int, metrics: Iterable[str]) -> Fingerprint:
    """Return what was run. The prompt is part of the plan, so its digest is the agent's."""
    done = header.eval
    settings = compute_digest([header.plan, done.task_args, done.model_args, done.model_generate_config])
    options = {scorer.name: f"#{compute_digest(scorer.options)[:16]}" for scorer in done.scorers or ()}
    scorers = {name: name.partition("/")[0] for name in metrics}
    identities = {name: {"options": options[scorer]} for name, scorer in scorers.items() if scorer in options}
    return Fingerprint(
        started_at=done.created,
        agent=AgentDigest(done.model, sha256=settings),
        recorded=True,
        datasets=(DatasetDigest(done.task, metric_identities=identities),),
        repeats=Repeats(epochs),
        versions=done.packages,
    )


def _list_values(sample: _LoggedSample) -> Iterator[tuple[str, Any, str | None]]:
    """Yield each metric of a sample with its value and explanation. A scorer may give several values, by name."""
    for name, found in (sample.scores or {}).items():
        if isinstance(found.value, dict | list):
            named = found.value.items() if isinstance(found.value, dict) else enumerate(found.value)
            yield from ((f"{name}/{part}", value, found.explanation) for part, value in named)
        else:
            yield name, found.value, found.explanation


def _find_metrics(samples: Iterable[_LoggedSample], done: _Evaluation) -> dict[str, ForeignMetric]:
    """Return the metrics of a log. A metric has a range if it is known to have one, or gave no numbers."""
    values: dict[str, list[Any]] = {scorer.name: [] for scorer in done.scorers or ()}
    for sample in samples:
        for name, value, _ in _list_values(sample):
            values.setdefault(name, []).append(value)
    parts = {name.partition("/")[0] for name in values if "/" in name}
    unit = {name for name, given in values.items() if all(isinstance(value, str | bool | None) for value in given)}
    return {
        name: ForeignMetric(UNIT if name in unit.union(_OF_UNIT) else UNKNOWN, judged=_JUDGED in name)
        for name, given in values.items()
        if given or name not in parts
    }


def _to_stored_exchange(given: _LoggedSample, dataset: str, metrics: Mapping[str, ForeignMetric]) -> StoredExchange:
    def text(content: _Text) -> str:
        if isinstance(content, list):
            return "\n".join(text(part.get("text")) for part in content if isinstance(part, dict))
        shown = content if isinstance(content, str) else ""
        return given.attachments.get(shown.removeprefix(_ATTACHED), shown)

    targets = (given.target,) if isinstance(given.target, str) else tuple(given.target)
    metadata = {key: value for key, value in given.metadata.items() if not is_too_deep(value)}
    asked = _to_question(given.input, text)
    digest = compute_digest([given.input, targets, given.choices])[:16]
    sample = Sample(str(given.id), asked, targets, metadata=metadata, digest=f"inspect:{digest}")
    chosen = given.output.choices[0] if given.output.choices else _Choice()
    answer = text(given.output.completion or chosen.message.content)
    reply = None if given.error else AgentReply(answer, finish_reason=chosen.stop_reason)
    error = shorten(given.error.message) if given.error else None
    exchange = Exchange(sample, reply, error, question_digest=compute_question_digest(sample))
    return StoredExchange(dataset, given.epoch, exchange, _score(given, exchange, metrics))


def _to_question(asked: str | list[_Message], text: Callable[[_Text], str]) -> str | tuple[Message, ...]:
    if isinstance(asked, str):
        return text(asked)
    turns = tuple(Message(message.role, text(message.content)) for message in asked)
    has_question = any(turn.role == "user" for turn in turns)
    return turns if has_question else "\n".join(turn.content for turn in turns)


def _score(given: _LoggedSample, exchange: Exchange, metrics: Mapping[str, ForeignMetric]) -> dict[str, Score]:
    """Return the score of each metric. Inspect does not say why a scorer gave none."""
    known = {name: score_number(_read_letter(value), metrics[name], why) for name, value, why in _list_values(given)}
    if not known:
        return fail_all(exchange, metrics)
    absent = Score.not_applicable("the scorer gave this sample no value", Cause.OTHER)
    return {name: known.get(name, absent) for name in metrics}


def _read_letter(value: Any) -> Any:
    return _LETTERS.get(value, value) if isinstance(value, str) else value


def _complete(
    done: _Evaluation, epochs: int, found: Sequence[StoredExchange], metrics: Mapping[str, ForeignMetric]
) -> list[StoredExchange]:
    """Return the attempts in order, with those that were planned and are not in the log, as failed ones."""
    samples = {one.exchange.sample.id: one.exchange.sample for one in found}
    names = dict.fromkeys([*map(str, done.dataset.sample_ids or ()), *samples])
    if len(names) * epochs > _MOST_ATTEMPTS:
        raise Malformed(f"{len(names):,} samples with {epochs:,} epochs are too many", "eval.config.epochs")
    known = {(one.exchange.sample.id, one.attempt) for one in found}
    absent = {name: Exchange(samples.get(name) or Sample(name, ""), error="not in the log") for name in names}
    missing = [
        StoredExchange(done.task, epoch, absent[name], fail_all(absent[name], metrics))
        for name in names
        for epoch in range(1, epochs + 1)
        if (name, epoch) not in known
    ]
    places = {name: place for place, name in enumerate(names)}
    return sorted([*found, *missing], key=lambda one: (places[one.exchange.sample.id], one.attempt))


class Archive:
    """An open `.eval` file. `members`: also those that share a name. `shown_as`: its path in messages."""

    def __init__(self, file: zipfile.ZipFile, shown_as: str) -> None:
        self.members = file.infolist()
        self._file = file
        self._shown_as = shown_as

    def read(self, member: zipfile.ZipInfo) -> bytes:
        """Return the content of a member. Memory stays bounded, whatever the file says of its sizes.

        Raises:
            InvalidInput: It is larger than the limit, or damaged.
            MissingPackage: It is packed with zstd, and zstandard is not installed.
        """
        unpack = _unpack_zstd if member.compress_type == _ZSTD else _unpack
        try:
            content = unpack(self._file, member, _MOST_BYTES + 1)
        except (*_DAMAGES, zlib.error, EOFError) as error:
            raise self._refuse(member, f"cannot be unpacked: {error}") from error
        if len(content) > _MOST_BYTES:
            raise self._refuse(member, f"unpacks to more than {_MOST_BYTES:,} bytes, the most that evalspec reads")
        if zlib.crc32(content) != member.CRC:
            raise self._refuse(member, "its checksum is wrong")
        return content

    def _refuse(self, member: zipfile.ZipInfo, message: str) -> InvalidInput:
        return InvalidInput(Problem(message, _FIX, self._shown_as, field=member.filename))


def _unpack(file: zipfile.ZipFile, member: zipfile.ZipInfo, size: int) -> bytes:
    with file.open(member) as stream:
        return stream.read(size)


def _unpack_zstd(file: zipfile.ZipFile, member: zipfile.ZipInfo, size: int) -> bytes:
    try:
        zstandard: Any = import_module("zstandard")
    except ImportError as error:
        raise MissingPackage("a log of Inspect that is packed with zstd", "zstandard", "inspect") from error
    packed = copy(member)
    packed.compress_type, packed.file_size = zipfile.ZIP_STORED, member.compress_size
    del packed.CRC  # of what is packed
    try:
        reader = zstandard.ZstdDecompressor(max_window_size=_WINDOW).stream_reader(file.open(packed))
        return bytes(reader.read(min(size, member.file_size + 1)))  # it allocates what it may return
    except zstandard.ZstdError as error:
        raise ValueError(str(error)) from error


def open_archive(path: Path, shown_as: str) -> zipfile.ZipFile:
    """Open a `.eval` file.

    Raises:
        InvalidInput: It cannot be read.
    """
    try:
        return zipfile.ZipFile(path)
    except _DAMAGES as error:
        raise InvalidInput(Problem(f"cannot be read: {error}", _FIX, shown_as)) from error
