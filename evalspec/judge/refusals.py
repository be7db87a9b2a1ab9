"""Read from an error reply which parameter or model the judge's endpoint refuses.

Only wording that ties a name to a refusal counts. An error that merely mentions a parameter, such as a value out of its
range, is an error for the user.
"""

import re
from collections.abc import Iterable
from typing import Any

from evalspec.errors import ServiceError
from evalspec.http.error_body import find_message, parse_error_object

_BAD_REQUEST = (400, 422)
_MISSING = (400, 404)
_LONGEST_MESSAGE = 2000
_REFUSING_CODES = frozenset({"unsupported_parameter", "unsupported_value", "unknown_parameter"})
_AFTER = (
    r"[^\n;]{0,60}?(?:not supported|unsupported|not support\b|deprecated|not permitted|not allowed|not recogni[sz]ed"
    r"|unavailable|cannot find field)"
)
"""Words after the name of a refused parameter, in one line."""

_BEFORE = r"(?:unsupported|unknown|unrecogni[sz]ed|unexpected)\b[^\n;]{0,40}?"
_OTHER_TYPE = r"(?:\.type\b|\s+type\b)[^\n;]{0,30}?(?:must be|should be)"
"""A response format of another type is expected: a value that no parameter of the manifest can be changed to."""

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
    described = parse_error_object(error.reply)
    message = find_message(error.reply)[:_LONGEST_MESSAGE]
    named = _named_parameter(described)
    if named is not None:
        refuses = described.get("code") in _REFUSING_CODES
        return [name for name in sent if name == named and (refuses or _is_refused(name, message))]
    return [name for name in sent if described is not None and _is_refused(name, message)]


def _named_parameter(described: Any) -> str | None:
    """Return the parameter in `param` of an error, without the path inside it: `response_format.type` is its parent."""
    param = described.get("param") if isinstance(described, dict) else None
    return re.split(r"[.\[]", param)[0] if isinstance(param, str) and param else None


def _is_refused(name: str, message: str) -> bool:
    whole = rf"(?<![\w-]){re.escape(name)}(?![\w-])"
    patterns = [whole + _AFTER, _BEFORE + whole]
    if name == "response_format":
        patterns.append(whole + _OTHER_TYPE)
    return any(re.search(pattern, message, re.IGNORECASE) for pattern in patterns)


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
