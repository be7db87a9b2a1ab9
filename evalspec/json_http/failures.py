"""What went wrong with a request to a service, in one line that says what to check. No header value is ever shown."""

import socket
import ssl
from collections.abc import Iterator
from dataclasses import dataclass

import httpx

from evalspec.errors import AgentError
from evalspec.json_http.error_body import THROTTLED, is_transient
from evalspec.json_http.routes import NO_PROXY_FIX, find_forwarder, shown_proxy
from evalspec.json_http.text import excerpt
from evalspec.retries import explain_wait, parse_retry_after

_IN_REQUEST = (400, 422)
_CHECK = {401: "headers", 403: "headers", 404: "path", 405: "path"}


@dataclass(frozen=True, slots=True)
class ServiceWords:
    """How messages speak of a service and of the part of the manifest that describes a call of it.

    `request_keys`: the keys of that part that shape the request.
    """

    service: str
    setting: str
    request_keys: str = "request"

    def check(self, status: int) -> str:
        """What to check after a status, empty where it does not say."""
        key = self.request_keys if status in _IN_REQUEST else _CHECK.get(status)
        return f"check {self.setting}.{key}" if key else ""


def shown_url(url: str | httpx.URL) -> str:
    """A url as it may be printed: without user, password, query and fragment, which may hold secrets."""
    try:
        return str(httpx.URL(url).copy_with(username=None, password=None, query=None, fragment=None))
    except (httpx.InvalidURL, ValueError):
        return "the url"


def explain_status(response: httpx.Response, body: str, words: ServiceWords) -> AgentError:
    """The error for a reply whose status is not 2xx; `body` is its beginning."""
    status, url = response.status_code, shown_url(response.request.url)
    if response.is_redirect:
        return AgentError(f"{url} answered {_status(response)}; {_redirect_target(response, words)}")
    parts = [f"{url} answered {_status(response)} where 200 was expected"]
    parts += [words.check(status)] if words.check(status) else []
    parts += [f"it says {excerpt(body)}"] if body.strip() and not looks_like_html(body) else []
    retry_after = parse_retry_after(response.headers.get("retry-after"))
    parts += [explain_wait(retry_after)] if explain_wait(retry_after) else []
    parts += explain_forwarding(str(response.request.url))
    return AgentError(
        "; ".join(parts),
        retryable=is_transient(status),
        retry_after=retry_after,
        throttled=status in THROTTLED,
    )


def explain_failure(error: Exception, url: str, timeout: float, words: ServiceWords) -> AgentError:
    """The error for an exchange that httpx could not finish. `timeout`: the whole exchange's, in seconds."""
    where = shown_url(url)
    if isinstance(error, httpx.ConnectTimeout):
        message = f"no connection to {where} in time; is {words.service} running there?"
        return AgentError(message, retryable=True, unreachable=True)
    if isinstance(error, httpx.ProxyError):
        message = f"the proxy {shown_proxy(url)} answered, not {words.service}: {excerpt(str(error))}"
        message += f" when asked to connect to {where}; {NO_PROXY_FIX}"
        return AgentError(message, retryable=True, unreachable=True)
    if isinstance(error, httpx.ConnectError):
        return _explain_connect_error(error, url, words)
    if isinstance(error, httpx.TimeoutException | TimeoutError):
        message = f"no complete reply from {where} within {timeout:g} s ({words.setting}.timeoutSeconds)"
        return AgentError(message, retryable=True)
    if isinstance(error, httpx.RemoteProtocolError | httpx.NetworkError):
        return AgentError(f"the connection to {where} broke before the reply was complete", retryable=True)
    if isinstance(error, httpx.LocalProtocolError):
        return AgentError(
            f"the request cannot be sent: a name or value in {words.setting}.headers has a forbidden character"
        )
    if isinstance(error, httpx.InvalidURL | httpx.UnsupportedProtocol):
        return AgentError(f"{words.service}'s url cannot be used: {error}; one as http://localhost:4000 was expected")
    if isinstance(error, httpx.DecodingError):
        return AgentError(f"the reply of {where} is not compressed as its content-encoding says: {error}")
    deepest = list(_causes(error))[-1]
    return AgentError(f"the request to {where} failed: {type(deepest).__name__}: {deepest}")


def explain_forwarding(url: str) -> list[str]:
    """What to add to an error status: that a proxy is in between, if so. It may be all that answered."""
    proxy = find_forwarder(url)
    return [f"the proxy {proxy} answered, for the service or in its place; {NO_PROXY_FIX}"] if proxy else []


def looks_like_html(text: str) -> bool:
    """Whether a body is a page for people."""
    return text.lstrip()[:9].lower().startswith(("<!doctype", "<html", "<head", "<body"))


def _status(response: httpx.Response) -> str:
    return f"{response.status_code} {response.reason_phrase}".rstrip()


def _redirect_target(response: httpx.Response, words: ServiceWords) -> str:
    location = response.headers.get("location")
    if not location:
        return f"redirects are not followed, and this one names no target; check {words.service}'s url"
    try:
        target = shown_url(response.request.url.join(location))
    except (httpx.InvalidURL, ValueError):
        target = excerpt(location)
    return f"redirects are not followed; if {target} is {words.service}, put that url in the manifest"


def _explain_connect_error(error: httpx.ConnectError, url: str, words: ServiceWords) -> AgentError:
    where, proxy, causes = shown_url(url), shown_proxy(url), list(_causes(error))
    for cause in causes:
        if isinstance(cause, ssl.SSLError):
            reason = getattr(cause, "verify_message", None) or cause.reason or cause
            message = f"no TLS connection to {where}: {reason}; check https in the url, or SSL_CERT_FILE"
            return AgentError(message, unreachable=True)
        if isinstance(cause, socket.gaierror) and proxy is None:
            message = f"the host of {where} cannot be found ({cause.strerror}); check {words.service}'s url"
            return AgentError(message, retryable=True, unreachable=True)
    if proxy is not None:
        message = f"cannot connect to the proxy {proxy}, to reach {where}: {_deepest_reason(causes)}; {NO_PROXY_FIX}"
        return AgentError(message, retryable=True, unreachable=True)
    refused = any(isinstance(cause, ConnectionRefusedError) for cause in causes)
    reason = f"connection refused; is {words.service} running there?" if refused else _deepest_reason(causes)
    return AgentError(f"cannot connect to {where}: {reason}", retryable=True, unreachable=True)


def _deepest_reason(causes: list[BaseException]) -> str:
    reasons = [str(cause.strerror) for cause in causes if isinstance(cause, OSError) and cause.strerror]
    return reasons[-1] if reasons else str(causes[0])


def _causes(error: BaseException) -> Iterator[BaseException]:
    """The exception and all that it came from, outermost first."""
    yield error
    if isinstance(error, BaseExceptionGroup):
        for member in error.exceptions:
            yield from _causes(member)
    inner = error.__cause__ or error.__context__
    if inner is not None:
        yield from _causes(inner)
