"""Which hosts and origins requests may name: against rebound names, and pages of other sites."""

import re
from http import HTTPStatus
from ipaddress import ip_address

from starlette.datastructures import Headers
from starlette.requests import Request
from starlette.types import Scope

from evalspec.service.problems import ApiProblem
from evalspec.service.settings import ServiceSettings

SESSION_COOKIE = "evalspec_session"
CALLBACK = "/login/callback"
"""Where the identity provider sends browsers back to. What they bring is bound to the browser."""
READING = frozenset({"GET", "HEAD", "OPTIONS"})
"""Methods that change nothing."""

ANY_ADDRESS = frozenset({"0.0.0.0", "::"})  # noqa: S104 - nothing is bound here
"""What listens on all addresses, and is the address of none."""

_OWN_NAMES = frozenset({"localhost", "127.0.0.1", "::1"})
_AUTHORITY = re.compile(r"(?:\[(?P<v6>[0-9A-Fa-f:.]+)\]|(?P<name>[A-Za-z0-9._-]+))(?::(?P<port>\d{1,5}))?")
_ORIGIN = re.compile(r"(?P<scheme>https?)://(?P<authority>\S+)")
_PORTS = {"http": 80, "https": 443}
_OWN_SITES = frozenset({"same-origin", "none"})


def list_names(settings: ServiceSettings) -> frozenset[str]:
    """Return the names that the Host header may have: of this machine, the bound address, and the configured ones."""
    return _OWN_NAMES | {_fold(name) for name in (settings.host, *settings.hosts)} - ANY_ADDRESS


def describe_address(settings: ServiceSettings) -> str:
    """Return the URL of the server, as its own machine can use it."""
    name = "localhost" if settings.host in ANY_ADDRESS else settings.host
    return f"http://{f'[{name}]' if ':' in name else name}:{settings.port}"


def check_host(scope: Scope, headers: Headers, names: frozenset[str]) -> None:
    """Check that a request names this server. A page whose name was rebound to its address does not.

    Raises:
        ApiProblem: The Host header is missing, malformed or unknown.
    """
    given = headers.getlist("host")
    authority = _split(given[0]) if len(given) == 1 else None
    if authority is None:
        raise ApiProblem(HTTPStatus.BAD_REQUEST, "send one valid Host header")
    if authority[0] not in names and not _is_own_address(scope, authority[0]):
        detail = "this server does not have the name in the Host header (serve --server-name adds one)"
        raise ApiProblem(HTTPStatus.MISDIRECTED_REQUEST, detail)


def check_origin(scope: Scope, headers: Headers) -> None:
    """Check that a request that changes something, or that has a session, is not sent by a page of another site.

    Raises:
        ApiProblem: Another site sent it, or a session is used without proof that none did.
    """
    is_reading = scope["method"] in READING
    has_session = SESSION_COOKIE in Request(scope).cookies
    if is_reading and (not has_session or scope["path"] == CALLBACK):
        return
    origins, site = headers.getlist("origin"), headers.get("sec-fetch-site")
    if any(_read_origin(origin) != _find_own_origin(scope, headers) for origin in origins):
        detail = (
            "the Origin header names another site; behind a proxy that adds TLS, start the server with --trusted-proxy"
        )
        raise ApiProblem(HTTPStatus.FORBIDDEN, detail)
    if site is not None and site not in _OWN_SITES:
        raise ApiProblem(HTTPStatus.FORBIDDEN, "a page of another site sent this request")
    if has_session and not is_reading and not origins and site is None:
        raise ApiProblem(HTTPStatus.FORBIDDEN, "a request with a session needs the Origin header; scripts use a token")


def _find_own_origin(scope: Scope, headers: Headers) -> tuple[str, str, int] | None:
    return _read_origin(f"{scope['scheme']}://{headers['host']}")


def _read_origin(origin: str) -> tuple[str, str, int] | None:
    found = _ORIGIN.fullmatch(origin)
    authority = _split(found["authority"]) if found else None
    if found is None or authority is None:
        return None
    return found["scheme"], authority[0], authority[1] or _PORTS[found["scheme"]]


def _split(authority: str) -> tuple[str, int | None] | None:
    """Return name and port of `name:port`. None if it is malformed."""
    found = _AUTHORITY.fullmatch(authority)
    if found is None:
        return None
    return _fold(found["v6"] or found["name"]), int(found["port"]) if found["port"] else None


def _fold(name: str) -> str:
    return name.lower().strip("[]").rstrip(".")


def _is_own_address(scope: Scope, name: str) -> bool:
    """Return whether the name is the address that the connection was made to. A rebound name never is."""
    server = scope.get("server")
    if not server:
        return False
    try:
        return ip_address(name) == ip_address(server[0])
    except ValueError:
        return False
