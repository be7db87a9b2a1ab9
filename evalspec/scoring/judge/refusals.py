"""Read from an error reply which parameter, role or model the judge's endpoint refuses.

Only wording that ties a name to a refusal counts. An error that merely mentions a parameter, such as a value out of its
range, is an error for the user.
"""

import re
from collections.abc import Iterable
from typing import Any

from evalspec.base.errors import ServiceError
from evalspec.targets.http.error_body import find_message, parse_error_object

_BAD_REQUEST = (400, 422)
_MISSING = (400, 404)
_LONGEST_MESSAGE = 2000
_REFUSING_CODES = frozenset({"unsupported_parameter", "unsupported_value", "unknown_parameter"})
_NAME, _WORDS = "NAME", r"(?:(?!\.\s)[^\n;])"
"""The place of the parameter's name in the patterns, and a character within a sentence."""
_REFUSALS = (
    rf"NAME{_WORDS}{{0,60}}?(?:not supported|unsupported|not support\b|deprecated|not permitted|not allowed"
    r"|not recogni[sz]ed|unavailable|cannot find field|only \S+ is (?:allowed|supported))",
    rf"(?:unsupported|unknown|unrecogni[sz]ed|unexpected)\b{_WORDS}{{0,40}}?NAME",
    # "openai does not support parameters: ['top_p', 'temperature']", "doesn't support the temperature field"
    r"(?:not|n\W{1,3}t) support\s+(?:(?:the|parameters?|params?|arguments?|fields?)\b[\s:]*)*"
    r"(?:[\[{][^\]}\n]*?)?\W?NAME",
    r"not supported[^\n.;:]{0,30}:\s*\W?NAME",
    r"remove \W?NAME\W? and try again",
    r"may not be enabled when \W?NAME",
)
"""Words that tie the name of a parameter to its refusal, in one sentence."""
_OTHER_TYPE = r"NAME(?:\.type\b|\s+type\b)[^\n;]{0,30}?(?:must be|should be)"
"""A response format of another type is expected: a value that no parameter of the manifest can be changed to."""

_NO_SYSTEM_ROLE = re.compile(
    r"\bsystem[ _](?:role|messages?|prompt)\b.{0,30}?(?:not|n't) (?:be )?support"
    r"|(?:not|n't) support (?:the )?['\"`]?(?:system\b|developer\b)|developer instruction is not enabled"
    r"|only user and assistant roles|^conversation roles must alternate",
    re.IGNORECASE | re.MULTILINE,
)
_STREAMS_ONLY = re.compile(
    r"only supports? stream|non-streaming|stream\W{0,4}(?:false|must be set to true)", re.IGNORECASE
)

_MISSING_CODES = frozenset({"model_not_found", "DeploymentNotFound", "not_found_error"})
_NO_MODEL = re.compile(
    r"\bmodels?\b.{0,200}?(?:not exist|not found|not available|not been found|no longer available|deprecated|retired"
    r"|shut ?down)|(?:invalid|unknown|no such) model",
    re.IGNORECASE | re.DOTALL,
)


def list_refused(error: ServiceError, sent: Iterable[str]) -> list[str]:
    """Return the sent parameters that an endpoint refuses by name; empty if the error has another reason."""
    if error.status not in _BAD_REQUEST:
        return []
    described, message = parse_error_object(error.reply), _read_message(error)
    named = _named_parameter(described)
    if named is not None:
        refuses = described.get("code") in _REFUSING_CODES
        return [name for name in sent if name == named and (refuses or _is_refused(name, message))]
    return [name for name in sent if described is not None and _is_refused(name, message)]


def _named_parameter(described: Any) -> str | None:
    """Return the parameter in `param` of an error, without the path inside it: `response_format.type` is its parent.

    LiteLLM writes "None" if it knows none.
    """
    param = described.get("param") if isinstance(described, dict) else None
    return re.split(r"[.\[]", param)[0] if isinstance(param, str) and param not in ("", "None") else None


def _is_refused(name: str, message: str) -> bool:
    patterns = (*_REFUSALS, _OTHER_TYPE) if name == "response_format" else _REFUSALS
    return any(re.search(pattern.replace(_NAME, _match_name(name)), message, re.IGNORECASE) for pattern in patterns)


def _match_name(name: str) -> str:
    """Return the pattern of a parameter's name, which Bedrock and xAI write as `maxTokens`."""
    camel = re.sub("_(.)", lambda found: found[1].upper(), name)
    return rf"(?<![\w-])(?:{re.escape(name)}|{re.escape(camel)})(?![\w-])"


def _read_message(error: ServiceError) -> str:
    return find_message(error.reply)[:_LONGEST_MESSAGE]


def refuses_system_role(error: ServiceError) -> bool:
    """Return whether an endpoint says that its model takes no message of the role `system`."""
    return error.status in _BAD_REQUEST and _NO_SYSTEM_ROLE.search(_read_message(error)) is not None


def suggest_settings(error: ServiceError, sent: Iterable[str], setting: str) -> str | None:
    """Return what to write in the manifest after a refusal that cannot be worked around; None if nothing may help."""
    message = _read_message(error)
    if error.status not in _BAD_REQUEST:
        return None
    if _STREAMS_ONLY.search(message):
        return (
            "evalspec reads whole answers; if the model streams only while it thinks, add enable_thinking: false to "
            f"{setting}.parameters, otherwise choose another model"
        )
    name = next((name for name in sent if re.search(_match_name(name), message, re.IGNORECASE)), None)
    return f"to send no {name}, set {setting}.parameters: {{{name}: null}}" if name else None


def lacks_model(error: ServiceError, model: str) -> bool:
    """Return whether an endpoint says that it has no model of this name."""
    if error.status not in _MISSING:
        return False
    described = parse_error_object(error.reply)
    if not isinstance(described, dict | str):
        return False
    fields = described if isinstance(described, dict) else {}
    message = find_message(error.reply)[:_LONGEST_MESSAGE]
    if fields.get("code") in _MISSING_CODES or fields.get("type") in _MISSING_CODES:
        return fields.get("code") != "not_found_error" or "model" in message
    return (model in message or fields.get("param") == "model") and _NO_MODEL.search(message) is not None
