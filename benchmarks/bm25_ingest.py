"""Measure how long the built-in BM25 takes to ingest 100,000 short documents, as a run does, and to answer queries.

Times are those of a whole process minus those of a process that only creates the documents. The peak is the whole
process's.
"""

import argparse
from collections.abc import Sequence

from harness import PYTHON, cpu, describe_machine, interleave, peak, print_goal, print_table, wall

DRAW = """
import asyncio, itertools, random
from evalspec.inputs.manifest.retriever_schema import Bm25Options
from evalspec.model import Document
from evalspec.targets.retrievers.base import SearchRequest
from evalspec.targets.retrievers.bm25 import Bm25Retriever

SYLLABLES = "ta ren mo lis ka den vor pe shi un gal ter ni os bra el".split()
chance = random.Random(7)
words = sorted({"".join(chance.choices(SYLLABLES, k=chance.randint(1, 5))) for _ in range(120_000)}, key=len)
shares = list(itertools.accumulate(1 / rank for rank in range(1, len(words) + 1)))  # Zipf: as those of a language

def write(count):
    return " ".join(chance.choices(words, cum_weights=shares, k=count))

documents = [Document(f"doc-{number}", write(chance.randint(20, 80))) for number in range(COUNT)]
queries = [write(8) for _ in range(1000)]
retriever = Bm25Retriever(Bm25Options(builtin="bm25"))
"""
INGEST = """
async def ingest():
    for start in range(0, len(documents), 500):
        await retriever.ingest(documents[start : start + 500], "eval:bench:")
    await retriever.prepare("eval:bench:")

asyncio.run(ingest())
"""
SEARCH = """
async def search():
    for query in queries:
        await retriever.search(SearchRequest(query, 100, "eval:bench:"))

asyncio.run(search())
"""
SIZES = (10_000, 100_000)


def write_program(size: int, *parts: str) -> Sequence[str]:
    return [PYTHON, "-c", f"COUNT = {size}\n" + "\n".join((DRAW, *parts))]


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--rounds", type=int, default=3)
    rounds = options.parse_args().rounds
    commands: dict[str, Sequence[str]] = {}
    for size in SIZES:
        commands[f"base {size}"] = write_program(size)
        commands[f"ingest {size}"] = write_program(size, INGEST)
        commands[f"search {size}"] = write_program(size, INGEST, SEARCH)
    costs = interleave(commands, rounds)
    print(f"{describe_machine('bm25s', 'PyStemmer', 'numpy')}; medians of {rounds} interleaved rounds\n")
    rows = []
    for size in SIZES:
        base, ingest, search = (costs[f"{part} {size}"] for part in ("base", "ingest", "search"))
        seconds = [wall(ingest) - wall(base), cpu(ingest) - cpu(base)]
        a_query = cpu(search) - cpu(ingest)  # 1,000 queries: seconds for all are milliseconds per query
        cells = [*(f"{part:.1f}" for part in seconds), f"{peak(base):.0f}", f"{peak(search):.0f}", f"{a_query:.2f}"]
        rows.append([f"{size:,} documents of 20 to 80 words", *cells])
    headers = ["BM25", "wall s", "CPU s", "peak MiB without", "peak MiB", "CPU ms / query"]
    print_table(headers, rows)
    print()
    largest = SIZES[-1]
    print_goal("CPU of 100,000 documents", cpu(costs[f"ingest {largest}"]) - cpu(costs[f"base {largest}"]), 60, " s")
    print_goal("peak memory of the whole process", peak(costs[f"search {largest}"]), 2048, " MiB")


if __name__ == "__main__":
    main()
