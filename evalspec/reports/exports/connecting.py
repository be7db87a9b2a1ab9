"""How exporters reach the other system."""

from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager

import httpx

from evalspec.inputs.manifest.export_schema import ExportConfig
from evalspec.inputs.manifest.redaction import hide_all
from evalspec.targets.http.client import OutgoingRequest, open_client, read_whole, refuse_status, send
from evalspec.targets.http.failures import ServiceNames
from evalspec.targets.http.routes import choose_route


class Connection:
    """An open connection to the system of an exporter."""

    def __init__(self, client: httpx.AsyncClient, exporter: str, to: ExportConfig) -> None:
        setting, hide = f"spec.evaluation.exports.{exporter}", hide_all(_list_secrets(to))
        self.client = client
        self.service = ServiceNames(exporter, setting, request_keys="", place_key="url", hide=hide)
        self._to = to

    async def request(self, method: str, path: str, content: bytes | None = None) -> bytes:
        """Send a request, and return the body of the answer.

        Raises:
            ServiceError: There is no answer with status 2xx.
        """
        sent = OutgoingRequest(f"{self._to.url.rstrip('/')}{path}", self._to.timeout_seconds, content, method)
        async with send(self.client, sent, self.service) as response:
            await refuse_status(response, self.service)
            return await read_whole(response)


def _list_secrets(to: ExportConfig) -> Iterator[str]:
    """Yield the values of the headers, and their words: of `Bearer KEY`, a service may quote the key."""
    for text in to.headers.values():
        yield from (text, *text.split())


@asynccontextmanager
async def connect(exporter: str, to: ExportConfig) -> AsyncIterator[Connection]:
    """Yield a connection with the headers, the proxy and the certificates that evalspec uses everywhere."""
    async with open_client(to.headers, choose_route(to.url)) as client:
        yield Connection(client, exporter, to)
