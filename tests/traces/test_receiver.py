"""The receiver of spans speaks HTTP as exporters do: in chunks, compressed, several requests on a connection."""

import asyncio
import gzip
import json
from pathlib import Path

import pytest

from evalspec.targets.trace_receiver import TraceReceiver

SPAN = {"traceId": "0a" * 16, "spanId": "0b" * 8, "name": "POST", "startTimeUnixNano": "1", "endTimeUnixNano": "2"}
BODY = json.dumps({"resourceSpans": [{"scopeSpans": [{"spans": [SPAN]}]}]}).encode()
RECORD = {"traceId": "0a" * 16, "spanId": "0b" * 8, "eventName": "gen_ai.client.inference.operation.details"}
LOGS = json.dumps({"resourceLogs": [{"scopeLogs": [{"logRecords": [RECORD]}]}]}).encode()
RECORDED = sorted((Path(__file__).parent / "recorded").glob("*.pb.gz"))


def post(path, body, *headers):
    lines = [f"POST {path} HTTP/1.1", "Host: localhost", "Content-Type: application/json", *headers]
    return "\r\n".join([*lines, "", ""]).encode() + body


def whole(path, body, *headers):
    return post(path, body, f"Content-Length: {len(body)}", *headers)


def in_chunks(path, body, size=7):
    pieces = [body[at : at + size] for at in range(0, len(body), size)]
    chunks = b"".join(b"%x\r\n%s\r\n" % (len(piece), piece) for piece in pieces)
    return post(path, chunks + b"0\r\n\r\n", "Transfer-Encoding: chunked", "Content-Encoding: gzip")


def exchange(*requests):
    """Send requests on one connection. Returns their statuses, and what was delivered."""
    delivered = []

    async def run():
        receiver = TraceReceiver(delivered.append)
        await receiver.start()
        try:
            address = receiver.endpoint.removeprefix("http://")
            host, _, path = address.partition("/")
            reader, writer = await asyncio.open_connection(*host.split(":"))
            statuses = []
            for request in requests:
                writer.write(request.replace(b"PREFIX", path.encode()))
                head = await reader.readuntil(b"\r\n\r\n")
                length = int(head.lower().partition(b"content-length: ")[2].split(b"\r\n")[0])
                await reader.readexactly(length)
                statuses.append(int(head.split()[1]))
            writer.close()
            await asyncio.sleep(0)
            return statuses
        finally:
            await receiver.aclose()
            await asyncio.sleep(0)

    return asyncio.run(run()), delivered


def test_a_connection_has_many_requests_in_any_form():
    statuses, delivered = exchange(
        whole("/PREFIX/v1/traces", BODY),
        in_chunks("/PREFIX/v1/traces", gzip.compress(BODY)),
        whole("/PREFIX/v1/logs", LOGS),
        whole("/PREFIX/v1/metrics", b"{}"),
    )
    assert statuses == [200] * 4
    assert [(len(batch.spans), len(batch.events)) for batch in delivered] == [(1, 0), (1, 0), (0, 1)]


@pytest.mark.parametrize("path", ["/v1/traces", "/PREFIXx/v1/traces", "/PREFIX/v1/traces/", "/PREFIX/v2/traces", "/"])
def test_who_does_not_know_the_path_delivers_nothing(path):
    statuses, delivered = exchange(whole(path, BODY))
    assert statuses == [404] and not delivered


def test_a_body_beyond_the_limit_is_refused_unread(monkeypatch):
    monkeypatch.setattr("evalspec.targets.trace_receiver.MOST_BYTES", 1000)
    assert exchange(whole("/PREFIX/v1/traces", b" " * 1001))[0] == [413]
    packed = gzip.compress(b" " * 1001)
    assert exchange(whole("/PREFIX/v1/traces", packed, "Content-Encoding: gzip"))[0] == [413]


@pytest.mark.parametrize("recorded", RECORDED, ids=lambda path: path.name)
def test_what_exporters_really_send_is_read(recorded):
    request = whole("/PREFIX/v1/traces", recorded.read_bytes(), "Content-Encoding: gzip")
    statuses, delivered = exchange(request.replace(b"application/json", b"application/x-protobuf"))
    assert statuses == [200] and delivered[0].spans
