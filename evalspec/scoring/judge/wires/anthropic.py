"""Anthropic's messages (`POST …/messages`): the system's text apart, content in blocks, and answers by a forced tool.

Two blocks are marked for Anthropic's prompt cache: the system's text, and the user's text up to the sample. Both are
the same for all samples of a metric.
"""

import json
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from evalspec.inputs.usage import read_usage
from evalspec.model import is_cut_off
from evalspec.scoring.judge.batch_wire import BatchedRequest, BatchPost, BatchResult, BatchState, BatchWire
from evalspec.scoring.judge.wire import JudgeChoice, JudgeQuestion, JudgeReply, JudgeWire, close_schema
from evalspec.targets.http.completions import read_content

_TOOL = "answer"
_SAMPLE = "\ninput: "
"""What precedes the sample in a prompt of ragas. The sample is JSON on one line, so the last one is the mark."""
_CACHED = {"cache_control": {"type": "ephemeral"}}
_BATCHES = "messages/batches"
_STATUSES: Mapping[str, int] = {
    "invalid_request_error": 400, "authentication_error": 401, "billing_error": 402, "permission_error": 403,
    "not_found_error": 404, "request_too_large": 413, "rate_limit_error": 429, "timeout_error": 504,
    "overloaded_error": 529,
}  # fmt: skip
"""The status that a request alone would have, by the type of the error."""


def _build_request(question: JudgeQuestion) -> dict[str, Any]:
    first, *later = question.messages
    system = first["content"] if first["role"] == "system" else ""
    turns = later if system else question.messages
    return {
        "model": question.model,
        **({"system": [{"type": "text", "text": system, **_CACHED}]} if system else {}),
        "messages": _build_messages(turns),
        **question.parameters,
        **_request_json(question),
    }


def _build_messages(turns: Sequence[Mapping[str, str]]) -> list[dict[str, Any]]:
    """Return the turns. Empty answers are left out, because empty text is refused."""
    asked, *others = turns
    begin, mark, sample = asked["content"].rpartition(_SAMPLE)
    stable = [{"type": "text", "text": begin, **_CACHED}] if begin else []
    opening = {"role": "user", "content": [*stable, {"type": "text", "text": f"{mark}{sample}"}]}
    said = [{"role": turn["role"], "content": turn["content"]} for turn in others if turn["content"].strip()]
    return [opening, *said]


def _request_json(question: JudgeQuestion) -> dict[str, Any]:
    schema = {"type": "object", **question.schema}
    if question.form == "tool":
        tool = {"name": _TOOL, "description": "Give the answer.", "input_schema": schema}
        return {"tools": [tool], "tool_choice": {"type": "tool", "name": _TOOL}}
    if question.form == "json_schema":
        return {"output_config": {"format": {"type": "json_schema", "schema": close_schema(schema)}}}
    return {}


def _read_reply(reply: Mapping[str, Any]) -> JudgeReply:
    content = reply.get("content")
    choices = [_read_choice(content, reply.get("stop_reason"))] if isinstance(content, list) else []
    return JudgeReply(choices, read_usage(reply.get("usage")), {"model": reply.get("model")})


def _read_choice(content: list[Any], reason: Any) -> JudgeChoice:
    calls = [block for block in content if isinstance(block, dict) and block.get("type") == "tool_use"]
    called = dict.fromkeys(json.dumps(call.get("input"), ensure_ascii=False) for call in calls)
    text = "\n".join(called) or read_content(content) or ""  # answers that differ are several objects, so none is used
    known = reason if isinstance(reason, str) else ""
    is_truncated, is_refused = known == "max_tokens", known == "refusal"
    return JudgeChoice(
        text,
        is_truncated=is_truncated,
        refusal=(read_content(content) or known) if is_refused else None,
        incomplete=known if not (is_truncated or is_refused) and (known == "pause_turn" or is_cut_off(known)) else None,
    )


async def _submit_batch(post: BatchPost, requests: Sequence[BatchedRequest], _intent: str) -> dict[str, Any]:
    """Submit requests. A batch has no field for the intent, so it is found by the ids of its requests."""
    batch = {"requests": [{"custom_id": one.id, "params": one.body} for one in requests]}
    return await post(_BATCHES, json.dumps(batch).encode())


def _read_batch(described: Mapping[str, Any]) -> BatchState:
    status = described["processing_status"]
    has_results = described.get("results_url") is not None  # its host is not trusted with the key, so it is not used
    return BatchState(
        described["id"],
        status,
        status == "ended",
        sum(described["request_counts"].values()),
        datetime.fromisoformat(described["created_at"]).timestamp(),
        results=[f"{_BATCHES}/{described['id']}/results"] if has_results else [],
    )


def _read_batch_result(line: Mapping[str, Any]) -> BatchResult:
    result, name = line["result"], line["custom_id"]
    if result["type"] == "succeeded":
        return BatchResult(name, 200, result["message"])
    if result["type"] == "errored":
        return BatchResult(name, _STATUSES.get(result["error"]["error"]["type"], 500), result["error"])
    return BatchResult(name)


ANTHROPIC = JudgeWire(
    "anthropic",
    "Anthropic's messages",
    "messages",
    _build_request,
    _read_reply,
    build_headers=lambda key: {"x-api-key": key},
    headers={"anthropic-version": "2023-06-01"},
    forms={"auto": ("tool", "json_schema"), "json_schema": ("json_schema",)},
    form_keys={"tool": ("tools", "tool_choice"), "json_schema": ("output_config",)},
    batch=BatchWire(_BATCHES, "after_id", _submit_batch, _read_batch, _read_batch_result),
)
