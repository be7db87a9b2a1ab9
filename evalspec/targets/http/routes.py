"""Routes to services: allowed hosts, the environment's proxy, and trusted certificates."""

import ssl
from collections.abc import Callable
from importlib.util import find_spec
from ipaddress import IPv6Address, ip_address
from os import environ
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from msgspec import Struct

from evalspec.base.errors import InvalidInput, Problem
from evalspec.base.trust import Act, require

if TYPE_CHECKING:
    import httpx

NO_PROXY_FIX = "NO_PROXY excludes hosts"
_PROXY_SCHEMES = ("http", "https", "socks5", "socks5h")


class Route(Struct, frozen=True):
    """How to reach one service. `proxy`: the proxy's url; None for a direct connection."""

    ssl_context: ssl.SSLContext
    proxy: str | None = None

    @property
    def client_options(self) -> dict[str, Any]:
        """Options of an httpx client for this route. httpx itself does not read the environment."""
        hooks = {"request": [_refuse_other_hosts]}
        return {"verify": self.ssl_context, "proxy": self.proxy, "trust_env": False, "event_hooks": hooks}


async def _refuse_other_hosts(sent: "httpx.Request") -> None:
    """Raise Refused unless connections to the host are allowed. The url is the one that the client has parsed."""
    require(Act.CONNECT, f"{sent.url.scheme}://{sent.url.netloc.decode()}")


def choose_route(url: str, identify: Callable[[ssl.SSLContext], None] | None = None) -> Route:
    """Return the route to a url. All workers of a run share it, because the TLS context costs tens of milliseconds.

    For a url without TLS no certificates are loaded, so none would be accepted. `identify`: adds one of the client.

    Raises:
        InvalidInput: the environment has an unusable proxy or unusable certificates.
    """
    problem = check_proxy(url) or check_certificates(url)
    if problem is not None:
        raise InvalidInput(problem)
    if _split(url)[0] != "https":
        return Route(ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT), proxy_for(url))
    import httpx

    context = httpx.create_ssl_context()
    if identify is not None:
        identify(context)
    return Route(context, proxy_for(url))


def proxy_for(url: str) -> str | None:
    """Return the environment's proxy for a url; None for loopback, which a proxy cannot reach."""
    scheme, host, netloc = _split(url)
    if not host or is_loopback(host):
        return None
    from urllib import request  # with http.client and email

    proxies = request.getproxies()
    proxy = proxies.get(scheme) or proxies.get("all")
    # Not in typeshed. The public function also reads the system's settings, which httpx never did.
    if not proxy or request.proxy_bypass_environment(netloc, proxies):  # type: ignore[attr-defined]
        return None
    return proxy if "://" in proxy else f"http://{proxy}"


def shown_proxy(url: str) -> str | None:
    """Return the proxy for a url for messages, without user and password; None if there is none."""
    proxy = proxy_for(url)
    if proxy is None:
        return None
    scheme, _, rest = proxy.partition("://")
    return f"{scheme}://{rest.rpartition('@')[2].rstrip('/')}"


def forwarder_for(url: str) -> str | None:
    """Return the proxy for messages if it can answer instead of the service, which TLS prevents; else None."""
    return shown_proxy(url) if _split(url)[0] == "http" else None


def check_proxy(url: str) -> Problem | None:
    """Return the problem of the proxy for a url; None if it is usable."""
    proxy = proxy_for(url)
    if proxy is None:
        return None
    from urllib import request

    scheme, host, _ = _split(proxy)
    field = "ALL_PROXY" if not request.getproxies().get(_split(url)[0]) else f"{_split(url)[0].upper()}_PROXY"
    if scheme not in _PROXY_SCHEMES or not host:
        message = f"{shown_proxy(url)} is not a proxy's url"
        return Problem(message, f"write it like http://host:3128; {NO_PROXY_FIX}", field=field)
    if scheme.startswith("socks") and find_spec("socksio") is None:
        message = f"a {scheme} proxy needs the package socksio, which is not installed"
        return Problem(message, f"pip install 'httpx[socks]', or unset it; {NO_PROXY_FIX}", field=field)
    return None


def check_certificates(url: str) -> Problem | None:
    """Return the problem of the certificates in SSL_CERT_FILE for a url; None if they are usable."""
    path = environ.get("SSL_CERT_FILE")
    if not path or _split(url)[0] != "https":
        return None
    try:
        ssl.create_default_context(cafile=path)
    except (OSError, ValueError) as error:
        missing = isinstance(error, FileNotFoundError)
        reason = "no such file" if missing else getattr(error, "reason", None) or str(error)
        return Problem(f"{path}: {reason}", "set it to a file of PEM certificates, or unset it", field="SSL_CERT_FILE")
    return None


def _split(url: str) -> tuple[str, str, str]:
    """Return scheme, host, and host with port of a url; empty if it is invalid, which sending a request reports."""
    try:
        parts = urlsplit(url)
        port = f":{parts.port}" if parts.port else ""
        return parts.scheme.lower(), parts.hostname or "", f"{parts.hostname}{port}"
    except ValueError:
        return "", "", ""


def is_loopback(host: str) -> bool:
    """Return whether a host is this machine, by its name or address."""
    name = host.rstrip(".").lower()
    if name == "localhost" or name.endswith(".localhost"):
        return True
    try:
        address = ip_address(name.partition("%")[0])
    except ValueError:
        return False
    if isinstance(address, IPv6Address) and address.ipv4_mapped is not None:
        address = address.ipv4_mapped
    return address.is_loopback or address.is_unspecified
