"""The lower bound for sending requests: httpx workers with a shared list, which check answers and store nothing.

    python bare_httpx.py URL SAMPLES CONCURRENCY pool|clients

`pool`: all workers share one client, like in most tools. `clients`: each worker has a client with one connection.
"""

import asyncio
import sys
from collections.abc import Iterator

import httpx


async def _work(client: httpx.AsyncClient, url: str, numbers: Iterator[int]) -> int:
    right = 0
    for number in numbers:
        reply = await client.post(url, json={"message": f"How many working days does parcel {number} take?"})
        right += "two working days" in reply.json()["response"]
    return right


async def ask_all(url: str, samples: int, concurrency: int, shared: bool) -> int:
    """Return the number of correct answers."""
    numbers = iter(range(samples))
    context = httpx.create_ssl_context()
    limits = httpx.Limits(max_connections=concurrency if shared else 1)
    clients = [
        httpx.AsyncClient(verify=context, limits=limits, timeout=30) for _ in range(1 if shared else concurrency)
    ]
    try:
        workers = [_work(clients[worker % len(clients)], url, numbers) for worker in range(concurrency)]
        return sum(await asyncio.gather(*workers))
    finally:
        for client in clients:
            await client.aclose()


if __name__ == "__main__":
    address, count, width, kind = sys.argv[1:]
    if asyncio.run(ask_all(address, int(count), int(width), kind == "pool")) != int(count):
        sys.exit("an answer is wrong")
