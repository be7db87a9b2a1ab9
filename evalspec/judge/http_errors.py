"""What went wrong with a request to the judge or the embeddings, in one line that says what to check."""

import json

import httpx

from evalspec.errors import JudgeError
from evalspec.json_http.failures import explain_forwarding
from evalspec.json_http.routes import NO_PROXY_FIX, shown_proxy
from evalspec.judge.excerpts import quote
from evalspec.judge.place import ServicePlace
from evalspec.retries import explain_wait, parse_retry_after

_WORTH_RETRYING = (408, 425, 429)
_FATAL = {401: "apiKey", 403: "apiKey", 404: "baseUrl and model", 405: "baseUrl"}
_NO_QUOTA = "insufficient_quota"


def explain_status(response: httpx.Response, body: str, place: ServicePlace) -> JudgeError:
    """The error for an answer whose status is not 2xx; `body` is its text, free of secrets."""
    status = response.status_code
    message = f"{place} answered {f'{status} {response.reason_phrase}'.rstrip()}"
    if response.is_redirect:
        fix = f"redirects are not followed; check {place.setting}.baseUrl"
        return JudgeError(f"{message}; {fix}", fatal=True)
    said = _message_of(body)
    if said:
        message += f": {quote(said)}"
    message = "; ".join([message, *explain_forwarding(str(response.request.url))])
    if status in _FATAL:
        return JudgeError(f"{message}; check {place.setting}.{_FATAL[status]}", fatal=True)
    if status == 429 and _NO_QUOTA in body:
        return JudgeError(f"{message}; the account has no quota left", fatal=True)
    retry_after = parse_retry_after(response.headers.get("retry-after"))
    if explain_wait(retry_after):
        return JudgeError(f"{message}; {explain_wait(retry_after)}")
    return JudgeError(message, retryable=status >= 500 or status in _WORTH_RETRYING, retry_after=retry_after)


def explain_failure(error: Exception, place: ServicePlace, timeout: float) -> JudgeError:
    """The error for a request that got no complete answer. `timeout`: the whole exchange's, in seconds."""
    if isinstance(error, httpx.TimeoutException | TimeoutError):
        setting = f"{place.setting}.timeoutSeconds"
        return JudgeError(f"{place} gave no complete answer within {timeout:g} s ({setting})", retryable=True)
    if isinstance(error, httpx.InvalidURL | httpx.UnsupportedProtocol):
        return JudgeError(f"{place.setting}.baseUrl is not an http or https url", fatal=True)
    if isinstance(error, httpx.LocalProtocolError):
        return JudgeError(f"{place.setting}.apiKey has a character that a header cannot carry", fatal=True)
    proxy = shown_proxy(place.url)
    if isinstance(error, httpx.ProxyError):
        said = quote(str(error))
        message = f"the proxy {proxy} answered, not {place.name}: {said} when asked to connect to {place}"
        return JudgeError(f"{message}; {NO_PROXY_FIX}", retryable=True)
    if isinstance(error, httpx.DecodingError):
        return JudgeError(f"the answer of {place} is not compressed as its content-encoding says: {error}")
    if isinstance(error, httpx.ConnectError):
        reason = " ".join(str(error).split()) or "no connection"
        if proxy is not None:
            return JudgeError(
                f"no connection to {place} by the proxy {proxy}: {reason}; {NO_PROXY_FIX}", retryable=True
            )
        return JudgeError(f"cannot connect to {place}: {reason}; check {place.setting}.baseUrl", retryable=True)
    return JudgeError(f"the connection to {place} broke before the answer was complete", retryable=True)


def _message_of(body: str) -> str:
    """`error.message` of an OpenAI-style error, else the text; nothing of a page for people."""
    try:
        data = json.loads(body)
    except (ValueError, RecursionError):
        return "" if body.lstrip()[:1] == "<" else body
    error = data.get("error", data) if isinstance(data, dict) else data
    message = error.get("message", error) if isinstance(error, dict) else error
    return message if isinstance(message, str) else json.dumps(message)
