"""Measure the size of a page with 10,000 samples, and how long headless Chromium takes to show and search it."""

import argparse
import random
import resource
import shutil
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from statistics import median

from harness import describe_machine, print_goal, print_table
from msgspec import convert

from evalspec.model import (
    AgentReply,
    DatasetResult,
    Exchange,
    Run,
    Sample,
    SampleResult,
    SampleStatus,
    Score,
    StoredExchange,
    Summary,
    Threshold,
    VerdictStatus,
)
from evalspec.model.base import built
from evalspec.model.fingerprints import Fingerprint
from evalspec.reports.html import render_html

METRICS = ("faithfulness", "context_recall", "answer_correctness", "nDCG@10", "Recall@5", "rouge")
SYLLABLES = ("ta", "ren", "mo", "lis", "ka", "den", "vor", "pe", "shi", "un", "gal", "ter", "ni", "os", "bra", "el")
SEED = 7


class Texts:
    """A generator of sentences of made-up words with the frequencies of a natural language (Zipf)."""

    def __init__(self) -> None:
        self._random = random.Random(SEED)
        words = {"".join(self._random.choices(SYLLABLES, k=self._random.randint(1, 4))) for _ in range(20_000)}
        self._words = sorted(words, key=lambda word: (len(word), word))
        self._weights = [1 / rank for rank in range(1, len(self._words) + 1)]

    def write(self, characters: int) -> str:
        """Return a text of the given number of characters."""
        words = self._random.choices(self._words, self._weights, k=characters // 4 + 10)
        return " ".join(words)[: characters - 1].capitalize() + "."


def generate_exchanges(samples: int) -> Iterator[StoredExchange]:
    """Return exchanges with five contexts of 500 characters, an answer of 400, and judged statements. Deterministic."""
    texts, chance = Texts(), random.Random(SEED)
    for number in range(samples):
        documents = tuple(f"doc-{chance.randrange(50_000)}" for _ in range(5))
        sample = Sample(
            f"sample-{number:05}",
            texts.write(120),
            references=(texts.write(200),),
            qrels={documents[0]: 2, documents[3]: 1, f"doc-{number}": 1},
        )
        reply = AgentReply(texts.write(400), tuple(texts.write(500) for _ in range(5)), documents)
        statements = [
            {"statement": texts.write(80), "reason": texts.write(60), "verdict": chance.randrange(2)} for _ in range(2)
        ]
        scores = {metric: Score.scored(round(chance.betavariate(6, 2), 4)) for metric in METRICS}
        scores["faithfulness"] = Score.scored(chance.random(), texts.write(80), {"statements": statements})
        yield StoredExchange("support", 1, Exchange(sample, reply), scores)


def make_run(samples: int) -> Run:
    """Return a run of the exchanges."""
    chance = random.Random(SEED)
    results = tuple(
        SampleResult(
            id=stored_exchange.exchange.sample.id,
            status=SampleStatus.ANSWERED,
            tags=chance.sample(("basic", "advanced", "billing", "returns", "english"), 2),
            latency_ms=round(chance.lognormvariate(5, 0.5), 1),
            scores={name: Score.scored(score.value or 0.0) for name, score in stored_exchange.scores.items()},
            line=number,
            pass_rate=1.0 if all((score.value or 0.0) >= 0.4 for score in stored_exchange.scores.values()) else 0.0,
        )
        for number, stored_exchange in enumerate(generate_exchanges(samples), 1)
    )
    values = {metric: [result.scores[metric].value or 0.0 for result in results] for metric in METRICS}
    means = {metric: sum(found) / len(found) for metric, found in values.items()}
    dataset = DatasetResult(
        name="support",
        samples=results,
        metrics={
            metric: Summary(value=mean, interval=(mean - 0.01, mean + 0.01), scored=samples)
            for metric, mean in means.items()
        },
        thresholds=tuple(
            Threshold(metric, min=0.4, status=VerdictStatus.PASS, value=mean, scored=samples, expected=samples)
            for metric, mean in means.items()
        ),
        file="support.jsonl",
    )
    return Run(
        id="benchmark",
        verdict=VerdictStatus.PASS,
        exit_code=0,
        datasets=(dataset,),
        fingerprint=convert({"agent": {"name": "benchmark"}}, built(Fingerprint)),
    )


def measure_browser(page_file: Path, chromium: str, rounds: int) -> dict[str, float]:
    """Return medians of milliseconds since navigation. Each round starts a new browser."""
    from playwright.sync_api import sync_playwright

    found: dict[str, list[float]] = {}
    with sync_playwright() as playwright:
        for _ in range(rounds):
            browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
            page = browser.new_page()
            page.goto(page_file.as_uri())
            page.wait_for_selector("#samples tbody tr")
            for what, script in _PROBES.items():
                found.setdefault(what, []).append(page.evaluate(script))
            browser.close()
    return {what: median(times) for what, times in found.items()}


_UNTIL_COUNT_CHANGES = """
async (text) => {
  const count = document.querySelector("#samples .count");
  const before = count.textContent;
  const started = performance.now();
  const search = document.querySelector("input[type=search]");
  search.value = text;
  search.dispatchEvent(new Event("input"));
  while (count.textContent === before) await new Promise((go) => setTimeout(go, 1));
  return performance.now() - started;
}
"""
_PROBES = {
    "first contentful paint": "performance.getEntriesByName('first-contentful-paint')[0].startTime",
    "document parsed": "performance.getEntriesByType('navigation')[0].domContentLoadedEventEnd",
    "first search, texts unpacked": f"({_UNTIL_COUNT_CHANGES})('taren kaden')",
    "further search": f"({_UNTIL_COUNT_CHANGES})('mo lis vor')",
    "sample opened": """
async () => {
  const started = performance.now();
  location.hash = "#sample=sample-05000";
  while (!document.querySelector(".contexts")) await new Promise((go) => setTimeout(go, 1));
  return performance.now() - started;
}""",
}


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--rounds", type=int, default=5)
    options.add_argument("--samples", type=int, default=10_000)
    options.add_argument("--keep", type=Path, help="write the page there too")
    given = options.parse_args()
    chromium = shutil.which("chromium")
    if chromium is None:
        sys.exit("no chromium: apt-get install chromium")
    run = make_run(given.samples)
    page = render_html(run, lambda: generate_exchanges(given.samples)).encode()
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**10
    exchanges = list(generate_exchanges(given.samples))
    characters = sum(len(text) for stored_exchange in exchanges for text in _texts_of(stored_exchange))
    started = time.process_time()
    render_html(run, lambda: exchanges)
    cost = time.process_time() - started
    if given.keep:
        given.keep.write_bytes(page)
    with tempfile.TemporaryDirectory() as scratch:
        file = Path(scratch) / "report.html"
        file.write_bytes(page)
        times = measure_browser(file, chromium, given.rounds)
    print(f"{describe_machine('playwright')}; {given.samples:,} samples, medians of {given.rounds} rounds\n")
    rows = [[what, f"{milliseconds:.0f} ms"] for what, milliseconds in times.items()]
    rows += [["texts", f"{characters / 1e6:.1f} MB"], ["page", f"{len(page) / 1e6:.1f} MB"]]
    rows += [["rendering, CPU", f"{cost:.1f} s"], ["peak of the process, texts read one by one", f"{peak:.0f} MiB"]]
    print_table(["", "measured"], rows)
    print()
    print_goal("first contentful paint", times["first contentful paint"] / 1000, 2, " s")
    print_goal("weight of the page", len(page) / 1e6, 25, " MB")


def _texts_of(stored_exchange: StoredExchange) -> Iterator[str]:
    exchange = stored_exchange.exchange
    yield exchange.sample.question
    yield exchange.response
    yield from exchange.sample.references
    yield from exchange.retrieved_contexts or ()


if __name__ == "__main__":
    main()
