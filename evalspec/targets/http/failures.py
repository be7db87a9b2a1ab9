"""Explain a failed request in one line, with what to check and whether to retry.

Header values are never shown.
"""

import re
import socket
import ssl
from collections.abc import Callable, Iterator

import httpx
from msgspec import Struct

from evalspec.base.errors import ServiceError
from evalspec.base.text import excerpt
from evalspec.targets.http.error_body import THROTTLED, find_message, is_transient
from evalspec.targets.http.pacing import explain_wait, parse_retry_after
from evalspec.targets.http.routes import NO_PROXY_FIX, forwarder_for, shown_proxy

_BAD_REQUEST = (400, 422)
_DENIED = (401, 403)
_NOT_THERE = (404, 405)
_NO_QUOTA = "insufficient_quota"
_REFUSED_CERTIFICATE = ("CERTIFICATE", "UNKNOWN_CA", "ACCESS_DENIED")
"""In the names of the TLS alerts by which a service refuses a client's certificate, or the lack of one."""
_RETRY_DELAY = re.compile(r'"retryDelay":\s*"(\d+(?:\.\d+)?)s"')
"""Google's services write the requested wait into the body instead of a Retry-After header."""


class ServiceNames(Struct, frozen=True):
    """The names that messages use for a service and its section of the manifest.

    `request_keys`, `credentials_key`, `place_key`: the section's keys for the request (empty: none), the credentials
    and the address. `hide`: removes the secrets from a text, because services quote a key that they reject.
    """

    name: str
    setting: str
    request_keys: str = "request"
    credentials_key: str = "headers"
    place_key: str = "path"
    hide: Callable[[str], str] = str

    def suspect_keys(self, status: int) -> str:
        """Return the manifest keys to check after a status; empty if the status does not point to any."""
        if status in _BAD_REQUEST:
            return self.request_keys
        if status in _DENIED:
            return self.credentials_key
        return self.place_key if status in _NOT_THERE else ""

    def excerpt(self, text: str) -> str:
        """Return the beginning of the text in quotes, without the secrets."""
        return excerpt(self.hide(text))


def shown_url(url: str | httpx.URL) -> str:
    """Return a url for messages, without user, password, query and fragment, which may contain secrets."""
    try:
        return str(httpx.URL(url).copy_with(username=None, password=None, query=None, fragment=None))
    except (httpx.InvalidURL, ValueError):
        return "the url"


def explain_status(response: httpx.Response, body: str, service: ServiceNames) -> ServiceError:
    """Return the error for a reply whose status is not 2xx. `body`: its beginning."""
    status, url = response.status_code, shown_url(response.request.url)
    answered = f"{url} answered {f'{status} {response.reason_phrase}'.rstrip()}"
    if response.is_redirect:
        return ServiceError(f"{answered}; {_redirect_target(response, service)}", fatal=True, status=status)
    parts = [f"{answered}, expected 200"]
    keys = service.suspect_keys(status)
    if keys:
        parts.append(f"check {service.setting}.{keys}")
    said = "" if looks_like_html(body) else find_message(body)
    if said.strip():
        parts.append(f"the reply says {service.excerpt(said)}")
    has_no_quota = status == 429 and _NO_QUOTA in body
    if has_no_quota:
        parts.append("the account has no quota left")
    retry_after = _find_wait(response, body)
    parts += [explain_wait(retry_after)] if explain_wait(retry_after) else []
    forwarder = forwarder_for(str(response.request.url))
    if forwarder:
        parts.append(f"the proxy {forwarder} may have answered instead of the service; {NO_PROXY_FIX}")
    return ServiceError(
        "; ".join(parts),
        retryable=is_transient(status) and not has_no_quota,
        retry_after=retry_after,
        throttled=status in THROTTLED,
        fatal=has_no_quota or status in _DENIED + _NOT_THERE,
        status=status,
        reply=body,
    )


def _find_wait(response: httpx.Response, body: str) -> float | None:
    """Return the seconds that the service asks to wait, in the header or in the body; None if it names none."""
    in_header = parse_retry_after(response.headers.get("retry-after"))
    in_body = _RETRY_DELAY.search(body) if in_header is None else None
    return float(in_body[1]) if in_body else in_header


def explain_failure(error: Exception, url: str, timeout: float, service: ServiceNames) -> ServiceError:
    """Return the error for a request that httpx could not complete. `timeout`: of the whole exchange, in seconds."""
    where = shown_url(url)
    if isinstance(error, httpx.ConnectTimeout):
        message = f"no connection to {where} in time; is {service.name} running there?"
        return ServiceError(message, retryable=True, unreachable=True)
    if isinstance(error, httpx.ProxyError):
        message = f"the proxy {shown_proxy(url)} answered instead of {service.name}: {service.excerpt(str(error))}"
        message += f" when asked to connect to {where}; {NO_PROXY_FIX}"
        return ServiceError(message, retryable=True, unreachable=True)
    if isinstance(error, httpx.ConnectError):
        return _explain_connect_error(error, url, service)
    if isinstance(error, httpx.TimeoutException | TimeoutError):
        message = f"no complete reply from {where} within {timeout:g} s ({service.setting}.timeoutSeconds)"
        return ServiceError(message, retryable=True)
    if isinstance(error, httpx.RemoteProtocolError | httpx.NetworkError | ssl.SSLError):
        return _explain_closed(error, where)
    if isinstance(error, httpx.LocalProtocolError):
        setting = f"{service.setting}.{service.credentials_key}"
        message = f"the request cannot be sent: a name or value in {setting} has a forbidden character"
        return ServiceError(message, fatal=True)
    if isinstance(error, httpx.InvalidURL | httpx.UnsupportedProtocol):
        message = f"{service.name}'s url is not usable: {error}; write one like http://localhost:4000"
        return ServiceError(message, fatal=True)
    if isinstance(error, httpx.DecodingError):
        return ServiceError(f"the reply of {where} does not match its content-encoding: {error}")
    deepest = list(_causes(error))[-1]
    return ServiceError(f"the request to {where} failed: {type(deepest).__name__}: {deepest}")


def _explain_closed(error: Exception, where: str) -> ServiceError:
    """Return the error for a connection that ended within an exchange.

    In TLS 1.3, a service refuses the client's certificate, or the lack of one, after the handshake: with an alert
    (RFC 8446, section 6.2), which is lost if the service closes the connection at once.
    """
    message = f"the connection to {where} was closed before the reply was complete"
    if isinstance(error, ssl.SSLError) and error.reason:
        refused = any(word in error.reason for word in _REFUSED_CERTIFICATE)
        fix = "; set auth.certificate to a client certificate that it accepts" if refused else ""
        return ServiceError(f"{message} ({error.reason}){fix}", retryable=not refused)
    may_miss_one = isinstance(error, httpx.NetworkError) and where.startswith("https:")
    fix = "; if it wants a client certificate, set auth.certificate" if may_miss_one else ""
    return ServiceError(f"{message}{fix}", retryable=True)


def looks_like_html(text: str) -> bool:
    """Return whether a body is an HTML page."""
    return text.lstrip()[:9].lower().startswith(("<!doctype", "<html", "<head", "<body"))


def _redirect_target(response: httpx.Response, service: ServiceNames) -> str:
    location = response.headers.get("location")
    if not location:
        return f"redirects are not followed, and this one has no target; check {service.name}'s url"
    try:
        target = shown_url(response.request.url.join(location))
    except (httpx.InvalidURL, ValueError):
        target = service.excerpt(location)
    return f"redirects are not followed; if {target} is {service.name}, use that url in the manifest"


def _explain_connect_error(error: httpx.ConnectError, url: str, service: ServiceNames) -> ServiceError:
    where, proxy, causes = shown_url(url), shown_proxy(url), list(_causes(error))
    for cause in causes:
        if isinstance(cause, ssl.SSLError):
            reason = getattr(cause, "verify_message", None) or cause.reason or cause
            message = f"no TLS connection to {where}: {reason}; check https in the url, and SSL_CERT_FILE"
            return ServiceError(message, unreachable=True)
        if isinstance(cause, socket.gaierror) and proxy is None:
            message = f"the host of {where} cannot be resolved ({cause.strerror}); check {service.name}'s url"
            return ServiceError(message, retryable=True, unreachable=True)
    if proxy is not None:
        message = f"cannot connect to the proxy {proxy} for {where}: {_deepest_reason(causes)}; {NO_PROXY_FIX}"
        return ServiceError(message, retryable=True, unreachable=True)
    refused = any(isinstance(cause, ConnectionRefusedError) for cause in causes)
    reason = f"connection refused; is {service.name} running there?" if refused else _deepest_reason(causes)
    return ServiceError(f"cannot connect to {where}: {reason}", retryable=True, unreachable=True)


def _deepest_reason(causes: list[BaseException]) -> str:
    reasons = [str(cause.strerror) for cause in causes if isinstance(cause, OSError) and cause.strerror]
    return reasons[-1] if reasons else str(causes[0])


def _causes(error: BaseException) -> Iterator[BaseException]:
    """Yield the exception and its causes, outermost first."""
    yield error
    if isinstance(error, BaseExceptionGroup):
        for member in error.exceptions:
            yield from _causes(member)
    inner = error.__cause__ or error.__context__
    if inner is not None:
        yield from _causes(inner)
