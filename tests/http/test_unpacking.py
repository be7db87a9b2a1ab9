"""Replies that unpack to gigabytes, at each door through which a reply comes in."""

import asyncio
import gzip
import json
import zlib
from collections.abc import AsyncIterator
from time import process_time

import httpx
import pytest

from doors import DOORS
from evalspec.base.errors import ServiceError
from evalspec.inputs.manifest.agent_schema import ChatEndpoint
from evalspec.model import Sample
from evalspec.targets.agents.base import AgentTarget
from evalspec.targets.agents.http import HttpAgent
from evalspec.targets.http.client import iterate_unpacked
from evalspec.targets.http.routes import choose_route
from servers.faulty_agent import Answer

MEBIBYTE = 1_048_576


def make_bomb(mebibytes: int, layers: int) -> bytes:
    """gzip in gzip …, that many MiB of zeros inside: of a flushed block that repeats, so that it need not be made."""
    packer = zlib.compressobj(9, zlib.DEFLATED, zlib.MAX_WBITS | 16)
    head = packer.compress(b"\0" * MEBIBYTE) + packer.flush(zlib.Z_FULL_FLUSH)
    block = packer.compress(b"\0" * MEBIBYTE) + packer.flush(zlib.Z_FULL_FLUSH)
    packed = head + block * (mebibytes - 1)
    for _ in range(layers - 1):
        packed = gzip.compress(packed)
    return packed


def make_idle_bomb() -> bytes:
    """gzip that unpacks to 80 MiB of gzip, in which there is nothing at all."""
    head = gzip.compress(b"")[:10]
    return gzip.compress(head + b"\0\0\0\xff\xff" * (16 * MEBIBYTE), 1)


@pytest.mark.parametrize("door", DOORS, ids=lambda door: door.__name__)
@pytest.mark.parametrize(
    ("answer", "says"),
    [
        (Answer(body=make_bomb(16_384, 3), headers={"Content-Encoding": "gzip, gzip, gzip"}), "when unpacked"),
        (Answer(body=make_idle_bomb(), headers={"Content-Encoding": "gzip, gzip"}), "67,108,864 bytes when unpacked"),
        (Answer(body=make_bomb(1024, 1), headers={"Content-Encoding": "gzip"}), "bytes when unpacked"),
        (Answer(body=b"{}", headers={"Content-Encoding": ", ".join(["gzip"] * 40)}), "40 nested encodings"),
        (Answer(body=b"{}", headers={"Content-Encoding": "compress"}), "'compress' is not supported"),
    ],
    ids=["nested", "idle", "plain", "layers", "unknown"],
)
def test_a_bomb_is_refused_before_it_is_unpacked(agent, door, answer, says):
    agent.mode = answer
    started = process_time()
    with pytest.raises(ServiceError, match=says):
        asyncio.run(door(agent.url))
    assert process_time() - started < 10


@pytest.mark.parametrize("door", DOORS, ids=lambda door: door.__name__)
def test_a_bomb_under_an_error_status_hides_no_status(agent, door):
    agent.mode = Answer(500, {"Content-Encoding": "gzip, gzip"}, make_bomb(4096, 2))
    with pytest.raises(ServiceError, match="500"):
        asyncio.run(door(agent.url))


@pytest.mark.parametrize("encoding", ["gzip", "x-gzip", "deflate", "raw deflate", "br", "zstd", "gzip, deflate"])
def test_every_encoding_is_unpacked(agent, encoding):
    packed = body = json.dumps({"response": "Paris" * 100_000}).encode()
    for name in encoding.split(", "):
        packed = pack(packed, name)
    agent.mode = Answer(200, {"Content-Encoding": encoding.removeprefix("raw ")}, packed)

    async def ask():
        worker = HttpAgent(AgentTarget(agent.url, ChatEndpoint(), {}), choose_route(agent.url))
        try:
            return await worker.ask(Sample("s1", "?"))
        finally:
            await worker.aclose()

    assert asyncio.run(ask()).response == json.loads(body)["response"]


@pytest.mark.parametrize("encoding", ["gzip", "deflate", "raw deflate", "br", "zstd", "gzip, deflate"])
def test_a_packed_body_is_whole_or_an_error(encoding):
    packed = body = b'{"response": "Paris"}'
    for name in encoding.split(", "):
        packed = pack(packed, name)

    async def unpack(*chunks: bytes) -> bytes:
        async def arrive() -> AsyncIterator[bytes]:
            for chunk in chunks:
                yield chunk

        headers = {"content-encoding": encoding.removeprefix("raw ")}
        response = httpx.Response(200, headers=headers, content=arrive())
        return b"".join([piece async for piece in iterate_unpacked(response)])

    last_frame = len(pack(b"", "zstd")) // 2 if encoding == "zstd" else 0  # the body before it is whole
    for size in range(1, len(packed)):
        assert asyncio.run(unpack(packed[:size], packed[size:])) == body
        if size != len(packed) - last_frame:
            with pytest.raises(httpx.RemoteProtocolError):
                asyncio.run(unpack(packed[:size]))
    assert asyncio.run(unpack()) == b""


@pytest.mark.parametrize("door", DOORS, ids=lambda door: door.__name__)
def test_a_status_with_a_broken_body_is_still_known(agent, door):
    agent.mode = Answer(401, body=b'{"detail": "no', cut=True)
    with pytest.raises(ServiceError, match="401") as caught:
        asyncio.run(door(agent.url))
    assert caught.value.fatal


def pack(data: bytes, encoding: str) -> bytes:
    if encoding == "br":
        return pytest.importorskip("brotli").compress(data)
    if encoding == "zstd":
        packer = pytest.importorskip("zstandard").ZstdCompressor()
        return packer.compress(data[:99]) + packer.compress(data[99:])
    window = {"deflate": zlib.MAX_WBITS, "raw deflate": -zlib.MAX_WBITS}.get(encoding, zlib.MAX_WBITS | 16)
    packer = zlib.compressobj(wbits=window)
    return packer.compress(data) + packer.flush()
