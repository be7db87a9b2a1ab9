"""OpenAI's chat completions (`POST …/chat/completions`), as most endpoints have them, and its batches of them."""

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

from evalspec.inputs.usage import read_usage
from evalspec.model import is_cut_off
from evalspec.scoring.judge.batch_wire import BatchedRequest, BatchPost, BatchResult, BatchState, BatchWire
from evalspec.scoring.judge.wire import JudgeChoice, JudgeQuestion, JudgeReply, JudgeWire, close_schema
from evalspec.targets.http.completions import list_choices, read_content

_FORMAT = "response_format"
_SCHEMA_NAME = re.compile(r"[^A-Za-z0-9_-]")
_LONGEST_NAME = 64
_REASONING = ("reasoning_content", "reasoning")
_BATCH_ENDPOINT = "/v1/chat/completions"
_BATCH_ENDS = frozenset({"completed", "failed", "expired", "cancelled"})
_NOT_PROCESSED = frozenset({"batch_expired", "batch_cancelled"})
_MARK = "evalspec_intent"


def _build_request(question: JudgeQuestion) -> dict[str, Any]:
    request: dict[str, Any] = {"model": question.model, "messages": question.messages}
    if question.form == "json_schema":
        request[_FORMAT] = {"type": "json_schema", "json_schema": _describe_schema(question.schema)}
    elif question.form is not None:
        request[_FORMAT] = {"type": question.form}
    several = {"n": question.answers} if question.answers > 1 else {}
    return {**request, **question.parameters, **several}


def _describe_schema(schema: Mapping[str, Any]) -> dict[str, Any]:
    name = _SCHEMA_NAME.sub("_", str(schema.get("title", "answer")))[:_LONGEST_NAME]
    return {"name": name or "answer", "schema": close_schema(schema)}


def _read_reply(reply: Mapping[str, Any]) -> JudgeReply:
    return JudgeReply([_read_choice(one) for one in list_choices(reply)], read_usage(reply.get("usage")), reply)


def _read_choice(choice: Mapping[str, Any]) -> JudgeChoice:
    message = choice.get("message")
    message = message if isinstance(message, dict) else {}
    reason, text = choice.get("finish_reason"), read_content(message.get("content")) or ""
    is_truncated = reason == "length"
    return JudgeChoice(
        text,
        is_truncated=is_truncated,
        refusal=str(message["refusal"]) if message.get("refusal") else None,
        incomplete=reason if isinstance(reason, str) and not is_truncated and is_cut_off(reason) else None,
        misplaced=None if text.strip() else next((name for name in _REASONING if message.get(name)), None),
    )


async def _submit_batch(post: BatchPost, requests: Sequence[BatchedRequest], intent: str) -> dict[str, Any]:
    lines = ({"custom_id": one.id, "method": "POST", "url": _BATCH_ENDPOINT, "body": one.body} for one in requests)
    file = "".join(json.dumps(line) + "\n" for line in lines)
    form = (
        f'--{intent}\r\nContent-Disposition: form-data; name="purpose"\r\n\r\nbatch\r\n'
        f'--{intent}\r\nContent-Disposition: form-data; name="file"; filename="evalspec-{intent}.jsonl"\r\n'
        f"Content-Type: application/jsonl\r\n\r\n{file}\r\n--{intent}--\r\n"
    )
    uploaded = await post("files", form.encode(), f"multipart/form-data; boundary={intent}")
    batch = {
        "input_file_id": uploaded.get("id"),
        "endpoint": _BATCH_ENDPOINT,
        "completion_window": "24h",
        "metadata": {_MARK: intent},
    }
    return await post("batches", json.dumps(batch).encode())


def _read_batch(described: Mapping[str, Any]) -> BatchState:
    errors = (described.get("errors") or {}).get("data") or []
    files = (described.get(name) for name in ("output_file_id", "error_file_id"))
    return BatchState(
        described["id"],
        described["status"],
        described["status"] in _BATCH_ENDS,
        (described.get("request_counts") or {}).get("total"),
        described.get("created_at") or 0.0,
        (described.get("metadata") or {}).get(_MARK),
        [f"files/{file}/content" for file in files if file],
        "; ".join(str(one.get("message")) for one in errors) or None,
    )


def _read_batch_result(line: Mapping[str, Any]) -> BatchResult:
    """Return a result. A request that the provider could not process has an error in place of a response."""
    if response := line.get("response"):
        return BatchResult(line["custom_id"], response["status_code"], response["body"])
    error = line["error"]
    is_open = error.get("code") in _NOT_PROCESSED
    return BatchResult(line["custom_id"]) if is_open else BatchResult(line["custom_id"], 500, {"error": error})


CHAT = JudgeWire(
    "chat",
    "OpenAI's chat completions",
    "chat/completions",
    _build_request,
    _read_reply,
    forms={
        "auto": ("json_object", "json_schema"),
        "json_object": ("json_object",),
        "json_schema": ("json_schema",),
    },
    form_keys={"json_object": (_FORMAT,), "json_schema": (_FORMAT,)},
    limit_keys=("max_tokens", "max_completion_tokens"),
    gives_several=True,
    batch=BatchWire("batches", "after", _submit_batch, _read_batch, _read_batch_result),
)
