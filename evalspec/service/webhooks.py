"""Signed requests to a webhook, by Standard Webhooks, and only to public addresses unless others are allowed."""

import asyncio
import hmac
import os
import re
import socket
from base64 import b64decode, b64encode
from hashlib import sha256
from ipaddress import IPv6Address, ip_address, ip_network
from urllib.parse import urlsplit

from msgspec import Struct

from evalspec.base.errors import InvalidInput, Problem
from evalspec.targets.http.routes import choose_route

SEND_SECONDS = 20.0
_OK = range(200, 300)
_PORTS = {"http": 80, "https": 443}
_URLS = {True: re.compile(r"https?://[^\s/?#@]+([/?#]\S*)?"), False: re.compile(r"https://[^\s/?#@]+([/?#]\S*)?")}
"""What a url is, by whether private addresses are allowed."""
_SECRET = re.compile(r"whsec_((?:[A-Za-z0-9+/]{4}){8,21}(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?)")
"""A signing secret of Standard Webhooks: 24 to 64 bytes."""
_PUBLIC_V6 = ip_network("2000::/3")


class Webhook(Struct, frozen=True):
    """Where the alerts of a namespace go. `url`, `secret`: names of variables of the server, so no value is stored.

    `allows_private`: whether http and addresses that are not public are allowed.
    """

    url: str
    secret: str
    allows_private: bool = False

    def read(self) -> tuple[str, bytes]:
        """Return the url, and the key of the signatures.

        Raises:
            InvalidInput: A variable has neither. Its value is not shown.
        """
        url, secret = (os.environ.get(name, "") for name in (self.url, self.secret))
        key = _SECRET.fullmatch(secret)
        if not _URLS[self.allows_private].fullmatch(url):
            fix = "export one like https://hooks.example.com/…; --alert-private permits http"
            raise InvalidInput(Problem(f"the variable {self.url} has no url of a webhook", fix, field="--alert"))
        if key is None:
            fix = "export the output of: echo whsec_$(openssl rand -base64 32)"
            raise InvalidInput(Problem(f"the variable {self.secret} has no signing secret", fix, field="--alert"))
        return url, b64decode(key[1])


def send_signed(hook: Webhook, id: str, body: bytes, moment: int) -> str | None:
    """Send a body to a webhook. Return why it was not accepted, without the url. None: the answer is 2xx.

    `id`: the same in each attempt. `moment`: seconds since 1970.
    """
    import httpx  # only servers with alerts need it

    try:
        url, key = hook.read()
        address = _find_address(url, allows_private=hook.allows_private)
        if address is None:
            return "its host has an address that is not public; serve --alert-private permits it"
        signature = b64encode(hmac.digest(key, f"{id}.{moment}.".encode() + body, sha256)).decode()
        signed = {"webhook-id": id, "webhook-timestamp": str(moment), "webhook-signature": f"v1,{signature}"}
        status = asyncio.run(_post(url, address, signed, body))
    except TimeoutError:
        return f"no answer within {SEND_SECONDS:.0f} s"
    except (httpx.HTTPError, httpx.InvalidURL, OSError, ValueError, InvalidInput) as error:
        return f"no answer: {type(error).__name__}"  # the message may quote the url
    return None if status in _OK else f"the answer is HTTP {status}"


def _find_address(url: str, *, allows_private: bool) -> str | None:
    """Return an address of a url's host. None: one of its addresses is not public."""
    parts = urlsplit(url)
    found = socket.getaddrinfo(parts.hostname, parts.port or _PORTS[parts.scheme], type=socket.SOCK_STREAM)
    addresses = [str(one[4][0]) for one in found]
    return addresses[0] if allows_private or all(map(_is_public, addresses)) else None


def _is_public(text: str) -> bool:
    """Return whether an address is public. An address of IPv6 that contains one of IPv4 is not."""
    address = ip_address(text.partition("%")[0])
    if isinstance(address, IPv6Address) and (address not in _PUBLIC_V6 or address.sixtofour is not None):
        return False
    return address.is_global and not address.is_multicast


async def _post(url: str, address: str, headers: dict[str, str], body: bytes) -> int:
    """Return the status of the answer, whose body is not read.

    The request goes to the address that was checked: a second look-up could find another one. A proxy of the
    environment looks the name up itself. Redirects are not followed.
    """
    import httpx

    from evalspec.targets.http.client import open_client

    route, given = choose_route(url), httpx.URL(url)
    place = given if route.proxy else given.copy_with(host=address)
    async with (
        asyncio.timeout(SEND_SECONDS),
        open_client(headers | {"host": given.netloc.decode()}, route) as client,
        client.stream("POST", place, content=body, extensions={"sni_hostname": given.host}) as response,
    ):
        return response.status_code
