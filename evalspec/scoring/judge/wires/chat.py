"""OpenAI's chat completions (`POST …/chat/completions`), as most endpoints have them."""

import re
from collections.abc import Mapping
from typing import Any

from evalspec.model import is_cut_off
from evalspec.scoring.judge.wire import JudgeChoice, JudgeQuestion, JudgeReply, JudgeWire, close_schema
from evalspec.targets.http.completions import list_choices, read_content, read_usage

_FORMAT = "response_format"
_SCHEMA_NAME = re.compile(r"[^A-Za-z0-9_-]")
_LONGEST_NAME = 64
_REASONING = ("reasoning_content", "reasoning")


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
)
