"""Await the result of a job: one request starts it, and further ones ask for it until it has ended."""

import asyncio
from collections.abc import Mapping
from contextlib import suppress
from time import perf_counter
from typing import Any
from urllib.parse import urljoin, urlsplit, urlunsplit

import httpx
from msgspec import Struct
from msgspec.structs import replace

from evalspec.base.errors import ServiceError
from evalspec.base.json_path import as_id, select_values
from evalspec.base.trust import host_of
from evalspec.inputs.manifest.auth_schema import PollConfig
from evalspec.targets.http.client import OutgoingRequest, encode_headers, parse_body, read_whole, refuse_status, send
from evalspec.targets.http.credentials import Credentials
from evalspec.targets.http.error_body import as_text, find_message
from evalspec.targets.http.failures import ServiceNames, shown_url
from evalspec.targets.http.pacing import parse_retry_after, persist
from evalspec.targets.http.template import fill_path

_PLACES = ("operation-location", "location")
"""Headers of a reply that name the url of its job. Azure has the first."""

_AT_ONCE = (httpx.codes.OK, httpx.codes.NO_CONTENT)
"""Statuses of a first reply that is the result itself, if it names no job."""


class WholeReply(Struct, frozen=True):
    """The whole reply to a request, with a status of 2xx."""

    headers: Mapping[str, str]
    status: int
    body: bytes


def _find_place(answer: WholeReply) -> str | None:
    """Return the url of a job in the headers of a reply."""
    return next((place for name in _PLACES if (place := answer.headers.get(name, "").strip())), None)


async def fetch(client: httpx.AsyncClient, request: OutgoingRequest, service: ServiceNames) -> WholeReply:
    """Return the reply to one request.

    Raises:
        ServiceError: there is no complete reply with a status of 2xx.
    """
    async with send(client, request, service) as response:
        await refuse_status(response, service)
        return WholeReply(response.headers, response.status_code, await read_whole(response))


def add_headers(request: OutgoingRequest, own: Mapping[str, str]) -> OutgoingRequest:
    """Return a request with further headers."""
    return replace(request, headers=[*request.headers, *encode_headers(own)])


class JobPolling(Struct, frozen=True):
    """The jobs of one service. `url`: the base url. `max_retries`: of each request for the result."""

    poll: PollConfig
    url: str
    service: ServiceNames
    credentials: Credentials
    max_retries: int

    async def finish(
        self, client: httpx.AsyncClient, request: OutgoingRequest, answer: WholeReply, started: float
    ) -> bytes:
        """Return the body with the result of the job that a request has started. Its timeout covers all of it.

        `request`: without the headers of the credentials, so that each request gets those of its time. `started`: when
        it was sent, by `perf_counter`. No error is retried: it would start another job.

        Raises:
            ServiceError: the job has failed, or has no result in time.
        """
        asked = replace(self.service, place_key="poll", request_keys="poll")
        try:
            if self._has_ended(answer, is_first=True):
                return answer.body
            get = replace(request, url=self._find_url(request, answer), method="GET", content=None)
            async with asyncio.timeout(request.timeout - (perf_counter() - started)):
                while True:
                    wait = parse_retry_after(answer.headers.get("retry-after")) or 0.0
                    await asyncio.sleep(max(self.poll.interval_seconds, wait))
                    answer = await persist(lambda: self._ask(client, get, asked), self.max_retries)
                    if self._has_ended(answer):
                        return answer.body
        except TimeoutError:
            limit = f"{request.timeout:g} s ({self.service.setting}.timeoutSeconds)"
            raise ServiceError(f"the job has no result within {limit}{self._explain_state(answer)}") from None
        except ServiceError as error:
            raise ServiceError(str(error), fatal=error.fatal) from None

    async def _ask(self, client: httpx.AsyncClient, request: OutgoingRequest, service: ServiceNames) -> WholeReply:
        return await self.credentials.send(lambda own: fetch(client, add_headers(request, own), service))

    def explain_unread(self, error: ServiceError, first: WholeReply) -> ServiceError:
        """Return the error of a result that cannot be read. `first`: the first reply, which may be meant as a job."""
        if self.poll.status is not None or not self._has_ended(first, is_first=True):
            return error
        return error.named(ServiceError, f"the reply names no job ({self.service.setting}.poll.job) and is no result")

    def _explain_state(self, answer: WholeReply) -> str:
        """Return the part of a message for the last state of a job, which may be missing in `done`; perhaps empty."""
        with suppress(ServiceError):
            found = select_values(self.poll.status, self._parse(answer)) if self.poll.status else []
            setting = f"{self.service.setting}.poll.done"
            states = [self.service.excerpt(as_text(state)) for state in found]
            return f"; its last state is {states[0]}, which is neither in {setting} nor in failed" if states else ""
        return ""

    def _has_ended(self, answer: WholeReply, *, is_first: bool = False) -> bool:
        """Return whether a reply has the result. The first one has it by its state, or if 200 or 204 names no job."""
        if self.poll.status is None and is_first:
            return answer.status in _AT_ONCE and self.poll.job is None and _find_place(answer) is None
        if self.poll.status is None:
            return answer.status != httpx.codes.ACCEPTED
        if is_first and not answer.body.strip():
            return False
        found = select_values(self.poll.status, self._parse(answer))
        if not found and not is_first:
            raise ServiceError(f"the reply has no value at {self.poll.status} ({self.service.setting}.poll.status)")
        if any(state in self.poll.failed for state in found):
            said = self.service.excerpt(find_message(answer.body.decode(errors="replace")))
            raise ServiceError(f"the job has failed ({as_text(found[0])}); the reply says {said}")
        return any(state in self.poll.done for state in found)

    def _find_url(self, request: OutgoingRequest, answer: WholeReply) -> str:
        """Return the url of a job. A reply must not choose the host, which would get the credentials."""
        setting = f"{self.service.setting}.poll"
        if self.poll.job is None:
            named = _find_place(answer)
            missing = f"it has no url in a Location header; set {setting}.job"
        else:
            found = select_values(self.poll.job, self._parse(answer))
            named = as_id(found[0]) if len(found) == 1 else None
            missing = f"it has no id at {self.poll.job} ({setting}.job)"
        if named is None or not named.strip():
            raise ServiceError(f"the reply names no job: {missing}")
        if self.poll.path is not None:
            return f"{self.url.rstrip('/')}/{fill_path(self.poll.path, {'job': named}.__getitem__).lstrip('/')}"
        try:
            url = urljoin(request.url, named)
            here, there = urlsplit(request.url), urlsplit(url)
        except ValueError:
            raise ServiceError(f"the job is at {self.service.excerpt(named)}, which is no url") from None
        if (here.scheme, host_of(request.url)) != (there.scheme, host_of(url)):
            message = f"the job is at {shown_url(url)}, which is not the host of {shown_url(request.url)}"
            raise ServiceError(f"{message}; set {setting}.path", fatal=True)
        return urlunsplit(there._replace(netloc=here.netloc))

    def _parse(self, answer: WholeReply) -> Any:
        return parse_body(answer.body, self.url, self.service)
