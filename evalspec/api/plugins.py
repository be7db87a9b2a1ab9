"""The interface of plug-ins: what a package that extends evalspec may import, and checks for its own tests.

The names in `__all__` are stable, and nothing else is. docs/reference/plugins.md has their entry points.
"""

import asyncio
import json
import tempfile
from collections.abc import Awaitable, Mapping, Sequence
from contextlib import suppress
from inspect import isawaitable, iscoroutinefunction
from pathlib import Path
from typing import Any, TypeVar

from msgspec.structs import replace

from evalspec.api.plugin_checks import attribute_errors, check_exporter, check_reporter, require, require_type
from evalspec.base.errors import MetricError, Problem, RetrieverError, ServiceError
from evalspec.base.foreign_text import inert
from evalspec.base.jsonl import read_head
from evalspec.inputs.datasets.base import (
    DatasetContent,
    DatasetFormat,
    ReadingNotes,
    SampleReader,
    SampleWriter,
    Source,
    Written,
)
from evalspec.inputs.manifest.agent_schema import ChatEndpoint
from evalspec.inputs.manifest.export_schema import ExportConfig
from evalspec.inputs.manifest.judge_schema import EmbeddingsConfig
from evalspec.inputs.manifest.metric_spec import MetricSpec
from evalspec.inputs.manifest.retriever_schema import PluginOptions
from evalspec.inputs.user_code.calls import describe_value
from evalspec.model import (
    AgentReply,
    Cause,
    Direction,
    Document,
    Exchange,
    Need,
    Run,
    Sample,
    Score,
    ScoreStatus,
    StoredExchange,
    Usage,
)
from evalspec.reports.base import Renderer, Reporter, StoredExchanges
from evalspec.reports.exports.base import Exporter, Sender
from evalspec.runs.runner.scoring import score_exchange
from evalspec.scoring.judge.services import JudgeServices
from evalspec.scoring.judge.wire import (
    JudgeChoice,
    JudgeQuestion,
    JudgeReply,
    JudgeReplyReader,
    JudgeRequestBuilder,
    JudgeWire,
)
from evalspec.scoring.metrics.base import BuildContext, Metric, MetricDefinition
from evalspec.scoring.metrics.columns import read_values
from evalspec.scoring.metrics.functions import MetricFunction, metric
from evalspec.targets.agents.wire import ReplyReader, RequestBuilder, StreamReader, ToolPart, Wire
from evalspec.targets.retrievers.base import (
    Deletes,
    Hit,
    Ingests,
    Prepares,
    Reranks,
    Retrieval,
    Retriever,
    SearchRequest,
)
from evalspec.targets.retrievers.opening import RetrieverFactory
from evalspec.targets.retrievers.scope_check import Checkable, check_scopes, start_check
from evalspec.targets.retrievers.vectors import TextVectors

__all__ = [
    "AgentReply",
    "BuildContext",
    "Cause",
    "ChatEndpoint",
    "DatasetContent",
    "DatasetFormat",
    "Deletes",
    "Direction",
    "Document",
    "Exchange",
    "ExportConfig",
    "Exporter",
    "Hit",
    "Ingests",
    "JudgeChoice",
    "JudgeQuestion",
    "JudgeReply",
    "JudgeReplyReader",
    "JudgeRequestBuilder",
    "JudgeWire",
    "MetricError",
    "MetricFunction",
    "Need",
    "Prepares",
    "Problem",
    "ReadingNotes",
    "Renderer",
    "ReplyReader",
    "Reporter",
    "RequestBuilder",
    "Reranks",
    "Retrieval",
    "Retriever",
    "RetrieverError",
    "RetrieverFactory",
    "Run",
    "Sample",
    "SampleReader",
    "SampleWriter",
    "Score",
    "SearchRequest",
    "Sender",
    "ServiceError",
    "Source",
    "StoredExchange",
    "StoredExchanges",
    "StreamReader",
    "TextVectors",
    "ToolPart",
    "Usage",
    "Wire",
    "Written",
    "check_agent",
    "check_dataset_format",
    "check_exporter",
    "check_judge",
    "check_metric",
    "check_reporter",
    "check_retriever",
    "inert",
    "metric",
]
T = TypeVar("T")

_NO_REPLIES: tuple[Any, ...] = (None, [], {}, "", 0, {"error": {"message": "overloaded"}})
"""JSON values that are no reply of any wire."""


def check_metric(function: MetricFunction, exchange: Exchange, **parameters: Any) -> Score:
    """Return the score of an exchange that the metric can score, as a run would record it.

    An exchange without any data must not get a value, or raise anything but a MetricError.

    Raises:
        AssertionError: the metric breaks its contract, or the score is failed.
    """
    definition: Any = getattr(function, "definition", None)
    name = getattr(function, "__name__", repr(function))
    require(isinstance(definition, MetricDefinition), f"{name} is no metric; decorate it with @metric")
    services = JudgeServices(None, EmbeddingsConfig())
    with attribute_errors(name):
        values = read_values(definition, MetricSpec(definition.name), parameters)
        build = definition.build
        scorer = build(BuildContext(None, Path(), services, parameters=values)) if build else None
    one = Metric(definition.name, definition, scorer, definition.needs, definition.bounds)
    scores = [asyncio.run(score_exchange([one], exchange))[one.name] for _ in range(2)]
    require(scores[0].status is not ScoreStatus.FAILED, f"{name} does not score the exchange: {scores[0].reason}")
    require(scores[0] == scores[1], f"{name} gives one exchange two scores: {scores[0].value}, {scores[1].value}")
    with suppress(MetricError), attribute_errors(f"{name} of an empty reply", MetricError):
        pending = scorer(Exchange(Sample("empty", "?"), AgentReply(""))) if scorer else None
        if isawaitable(pending):
            asyncio.run(_wait(pending))
    return scores[0]


async def _wait(pending: Awaitable[T]) -> T:
    return await pending


def check_dataset_format(dataset_format: DatasetFormat, path: Path) -> Sequence[Sample]:
    """Return the samples of a good file or folder of the format.

    The format must recognise it, and report a file of random bytes as a problem. If it can be written, and loses
    nothing, what was written must be read as the same samples.

    Raises:
        AssertionError: the format breaks its contract.
    """
    name = dataset_format.name
    with attribute_errors(f"{name}.recognises"):
        require(dataset_format.recognises(path, read_head(path)), f"{name} does not recognise {path.name}")
    content = _read(dataset_format, path)
    with tempfile.TemporaryDirectory() as folder:
        damaged, written = Path(folder) / f"damaged{path.suffix}", Path(folder) / path.name
        damaged.write_bytes(b"\x00\xff{[\"'" * 9)
        _, problems = _read_source(dataset_format, damaged)
        require(problems, f"{name}.read reports no problem in a file of random bytes")
        if dataset_format.write is None:
            return content.samples
        with attribute_errors(f"{name}.list_losses"):
            losses = list(dataset_format.list_losses(content))
        with attribute_errors(f"{name}.write"):
            counts = require_type(dataset_format.write(content, written), Written, f"{name}.write")
        again = _read(dataset_format, written).samples
    require(counts.samples == len(again), f"{name}.write counted {counts.samples} samples, and {len(again)} are read")
    same = [replace(sample, line=None) for sample in again] == [replace(one, line=None) for one in content.samples]
    require(same or losses, f"{name}.write loses something that list_losses does not list")
    return content.samples


def _read(dataset_format: DatasetFormat, path: Path) -> DatasetContent:
    """Return a content without problems, each sample with an id of its own."""
    content, problems = _read_source(dataset_format, path)
    require(not problems, f"{dataset_format.name}.read reports: {''.join(one.render() for one in problems[:1])}")
    require(content.samples, f"{dataset_format.name}.read yields no sample")
    ids = {sample.id for sample in content.samples}
    require(len(ids) == len(content.samples), f"{dataset_format.name}.read yields samples with the same id")
    return content


def _read_source(dataset_format: DatasetFormat, path: Path) -> tuple[DatasetContent, Sequence[Problem]]:
    notes, what = ReadingNotes(), f"{dataset_format.name}.read"
    with attribute_errors(what):
        read = dataset_format.read(Source(path, path.name), notes)
        samples = [require_type(sample, Sample, what) for sample in read]
    return DatasetContent(samples, notes.documents, notes.defaults), notes.problems


def check_agent(wire: Wire, reply: Any) -> AgentReply:
    """Return what the wire reads of a good reply, a JSON value.

    Requests must be JSON with the question. Values that are no reply must raise a ServiceError and nothing else.

    Raises:
        AssertionError: the wire breaks its contract.
    """
    asked, endpoint = "Who pays?", ChatEndpoint(protocol=wire.name)
    with attribute_errors(f"{wire.name}.build_request"):
        request = json.dumps(wire.build_request(Sample("s", asked), endpoint), allow_nan=False)
    require(asked in request, f"{wire.name}.build_request leaves out the question: {request}")
    for value in _NO_REPLIES:
        what = f"{wire.name}.read_reply of {json.dumps(value)}"
        with suppress(ServiceError), attribute_errors(what, ServiceError):
            found = wire.read_reply(value)
            raise AssertionError(f"{what} returned {describe_value(found)}; raise a ServiceError")
    with attribute_errors(f"{wire.name}.read_reply"):
        return require_type(wire.read_reply(reply), AgentReply, f"{wire.name}.read_reply")


def check_judge(wire: JudgeWire, reply: Mapping[str, Any]) -> JudgeReply:
    """Return what the wire reads of a good reply, a JSON object.

    Requests must be JSON with the model, the system's text and the prompt, in this order, so that the sample is last.
    Equal questions must have equal requests, and an object that is no reply must have no choices.

    Raises:
        AssertionError: the wire breaks its contract.
    """
    forms = dict.fromkeys([None, *(form for found in wire.forms.values() for form in found)])
    for form in forms:
        requests = [_ask_judge(wire, form) for _ in range(2)]
        require(requests[0] == requests[1], f"{wire.name}.build_request gives one question two requests")
        for part in ("judge-1", "Grade it.", "Is it polite?", "the sample"):
            require(part in requests[0], f"{wire.name}.build_request leaves out {part!r}: {requests[0]}")
        places = [requests[0].index(part) for part in ("Grade it.", "Is it polite?", "the sample")]
        require(places == sorted(places), f"{wire.name}.build_request has not instructions first, and the sample last")
    for value in ({}, {"error": {"message": "overloaded"}}):
        with attribute_errors(f"{wire.name}.read_reply of {json.dumps(value)}"):
            found = require_type(wire.read_reply(value), JudgeReply, f"{wire.name}.read_reply")
        require(not found.choices, f"{wire.name}.read_reply of {json.dumps(value)} has choices")
    with attribute_errors(f"{wire.name}.read_reply"):
        found = require_type(wire.read_reply(reply), JudgeReply, f"{wire.name}.read_reply")
    require(found.choices, f"{wire.name}.read_reply finds no choices in the good reply")
    return found


def _ask_judge(wire: JudgeWire, form: str | None) -> str:
    said = {"system": "Grade it.", "user": "Is it polite?\ninput: the sample"}
    messages = [{"role": role, "content": content} for role, content in said.items()]
    question = JudgeQuestion("judge-1", messages, {"type": "object", "properties": {}}, form, {wire.limit_keys[0]: 9})
    with attribute_errors(f"{wire.name}.build_request"):
        return json.dumps(wire.build_request(question), allow_nan=False)


def check_retriever(create: RetrieverFactory, **options: Any) -> None:
    """Check the retriever of some options, as a manifest has them beside `builtin`.

    If it can ingest and delete, it gets six documents below two prefixes. It must find them and separate the prefixes.

    Raises:
        AssertionError: the retriever breaks its contract.
    """
    with attribute_errors("the retriever"):
        embedder = JudgeServices(None, EmbeddingsConfig()).embedder
        retriever = create(PluginOptions(builtin="check", **options), TextVectors(embedder))
    for name in ("search", "aclose", "prepare", "ingest", "delete", "rerank"):
        method = getattr(retriever, name, None)
        require(method or name not in ("search", "aclose"), f"the retriever has no method {name}")
        require(method is None or iscoroutinefunction(method), f"the retriever's {name} is not async")
    with attribute_errors("the retriever"):
        asyncio.run(_check_search(retriever))


async def _check_search(retriever: Retriever) -> None:
    prefix, text = "eval:contract:", "Who pays the invoice?"
    try:
        if isinstance(retriever, Ingests):
            await retriever.ingest([Document(f"{prefix}{number}", text) for number in range(2)], prefix)
        if isinstance(retriever, Prepares):
            await retriever.prepare(prefix)
        found = require_type(await retriever.search(SearchRequest(text, 1, prefix)), Retrieval, "search")
        require(len(found.hits) <= 1, f"search returned {len(found.hits)} hits for top_k 1")
        if isinstance(retriever, Deletes):
            await retriever.delete(prefix)
        if isinstance(retriever, Checkable):
            check = start_check()
            await check_scopes(retriever, check, wait=0)
            require(not check.problems, next(iter(check.problems.values()), ""))
    finally:
        await retriever.aclose()
