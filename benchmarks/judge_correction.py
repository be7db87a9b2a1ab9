"""How often corrected intervals contain what people say, and how wide they are.

    python benchmarks/judge_correction.py real FOLDER # pairs that judges and people graded: FOLDER/judges, human.qrels
    python benchmarks/judge_correction.py limits FOLDER # verdicts where the limit is people's share, and 0.15 away
    python benchmarks/judge_correction.py queries FOLDER # whole queries drawn instead of pairs
    python benchmarks/judge_correction.py plot FOLDER # the figure of docs/explanation/judge-correction.md, as SVG
    python benchmarks/judge_correction.py simulated   # judges of a given kappa
    python benchmarks/judge_correction.py search      # the worst case over sensitivity, specificity, share, labels

The width is relative to Clopper and Pearson's interval on the labels alone. `--draws` is the number of draws per cell.
"""

import argparse
from collections.abc import Iterator
from functools import cache
from itertools import product
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from evalspec.verdict.correction.estimates import Opinions, correct
from evalspec.verdict.stats.bounded import compute_share_interval

Column = NDArray[np.float64]
_PAIRS_A_QUERY = 40
"""At most, of whole queries. They have 177 on average, which would only take longer."""


@cache
def enclose_share(passes: int, replies: int) -> tuple[float, float]:
    """Return Clopper and Pearson's 95 % interval."""
    return compute_share_interval(passes, replies, 0.95)


class Cell(NamedTuple):
    """Share of the draws whose interval contains people's share, too high and too low ones, and the relative width."""

    covered: float
    above: float
    below: float
    width: float
    alone: float


def measure(judged: Column, people: Column, replies: int, labels: int, draws: int, rng: np.random.Generator) -> Cell:
    """Draw replies from a pool, and labels from the replies. The target is people's share in the pool."""
    target = people.mean()
    hits = np.zeros(4)
    widths = np.zeros(2)
    for _ in range(draws):
        places = rng.choice(len(people), replies, replace=False)
        said, known = judged[places].tolist(), people[places[:labels]]
        found = correct(Opinions(said, [*known.tolist(), *[None] * (replies - labels)]))
        plain, alone = enclose_share(round(known.sum()), labels), enclose_share(round(sum(said)), replies)
        assert found is not None
        low, high = found.interval
        hits += low <= target <= high, low > target, high < target, alone[0] <= target <= alone[1]
        widths += high - low, plain[1] - plain[0]
    shares = hits / draws
    return Cell(shares[0], shares[1], shares[2], widths[0] / widths[1], shares[3])


class Graded(NamedTuple):
    """Pairs that people and judges graded: `queries` as numbers from 0, and 1 for relevant."""

    queries: NDArray[np.intp]
    people: Column
    judges: dict[str, Column]


def read(folder: Path) -> Graded:
    """Return the pairs of a folder."""
    pairs = [line.split() for line in (folder / "human.qrels").read_text().splitlines()]
    queries = np.unique([query for query, *_ in pairs], return_inverse=True)[1]
    people = np.array([float(int(grade) >= 2) for *_, grade in pairs])
    return Graded(queries, people, {path.stem: read_judge(path, pairs) for path in (folder / "judges").glob("*.txt")})


def run_real(folder: Path, draws: int) -> Iterator[str]:
    """Yield coverage and width for each size, over the judges of a folder."""
    _, people, judges = read(folder)
    for replies, labels in product((200, 1000), (30, 50, 100)):
        rng = np.random.default_rng(replies + labels)
        cells = {name: measure(judged, people, replies, labels, draws, rng) for name, judged in judges.items()}
        covered = [cell.covered for cell in cells.values()]
        widths = [cell.width for cell in cells.values()]
        worst = min(cells, key=lambda name: cells[name].covered)
        yield (
            f"N {replies:4} labels {labels:3}: covered {np.mean(covered):.1%}, least {min(covered):.1%} ({worst}), "
            f"width {np.mean(widths):.3f}, widest {max(widths):.3f}, "
            f"judge alone {np.mean([cell.alone for cell in cells.values()]):.1%}"
        )


def run_limits(folder: Path, draws: int) -> Iterator[str]:
    """Yield the verdicts on 200 replies with 100 labels, and those of the judge alone, for limits around the share."""
    _, people, judges = read(folder)
    share = people.mean()
    rng = np.random.default_rng(3)
    for name, judged in judges.items():
        ends = np.empty((draws, 2, 2))
        for draw in range(draws):
            places = rng.choice(len(people), 200, replace=False)
            said, known = judged[places].tolist(), people[places[:100]].tolist()
            found = correct(Opinions(said, [*known, *[None] * 100]))
            assert found is not None
            ends[draw] = found.interval, enclose_share(round(sum(said)), 200)
        told = []
        for place, what in enumerate(("corrected", "judge alone")):
            low, high = ends[:, place].T
            told.append(
                f"{what}: wrong PASS at the limit {np.mean(low > share):.2%}, "
                f"0.15 below it PASS {np.mean(low >= share - 0.15):.1%} and FAIL {np.mean(high < share - 0.15):.1%}, "
                f"0.15 above it FAIL {np.mean(high < share + 0.15):.1%} and PASS {np.mean(low >= share + 0.15):.1%}"
            )
        yield f"{name}: {'; '.join(told)}"


def run_queries(folder: Path, draws: int) -> Iterator[str]:
    """Yield coverage if queries are drawn with all their pairs, with the query and with the pair as unit."""
    queries, people, judges = read(folder)
    count = int(queries.max()) + 1
    pairs = [np.flatnonzero(queries == query) for query in range(count)]
    sizes = [min(len(places), _PAIRS_A_QUERY) for places in pairs]
    target = np.average([people[places].mean() for places in pairs], weights=sizes)
    for drawn, labels in ((10, 50), (25, 100), (50, 100)):
        rng = np.random.default_rng(drawn)
        hits = {name: np.zeros(2) for name in judges}
        for name, judged in judges.items():
            for _ in range(draws):
                places = [rng.permutation(pairs[query])[:_PAIRS_A_QUERY] for query in rng.integers(count, size=drawn)]
                units = np.repeat(np.arange(drawn), [len(one) for one in places])
                order = rng.permutation(len(units))
                mixed, units = np.concatenate(places)[order], units[order]
                known = [*people[mixed[:labels]].tolist(), *[None] * (len(mixed) - labels)]
                for place, unit in enumerate((units.tolist(), None)):
                    found = correct(Opinions(judged[mixed].tolist(), known, units=unit))
                    assert found is not None
                    hits[name][place] += found.interval[0] <= target <= found.interval[1]
        by_query, by_pair = np.array([*hits.values()]).T / draws
        yield (
            f"{drawn} queries, {labels} labels: covered with the query as unit {by_query.mean():.1%}, least "
            f"{by_query.min():.1%}; with the pair as unit {by_pair.mean():.1%}, least {by_pair.min():.1%}"
        )


_WIDTH, _ROW, _LEFT, _TOP = 640, 20, 16, 44
_STYLE = "text { font: 12px sans-serif; fill: #444 } .judge { stroke: #c2410c; fill: #c2410c } "
_STYLE += ".people { stroke: #1d4ed8; fill: #1d4ed8 } .share { stroke: #444; stroke-dasharray: 4 3 }"


def run_plot(folder: Path, _draws: int) -> Iterator[str]:
    """Yield an SVG: for each judge the interval of its own mean, and the corrected one, of the same 1,000 replies."""
    _, people, judges = read(folder)
    places = np.random.default_rng(7).choice(len(people), 1000, replace=False)
    known = [*people[places[:50]].tolist(), *[None] * 950]
    height = _TOP + _ROW * len(judges) + 30
    yield f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {height}" role="img"><style>{_STYLE}</style>'
    yield "<title>What 17 judges say about the same 1,000 replies, and what 50 labels make of it</title>"
    yield f'<text x="{_LEFT}" y="16">each row is a judge; orange: its own mean; blue: with 50 labels of people</text>'
    for row, judged in enumerate(sorted((one[places] for one in judges.values()), key=np.mean)):
        found = correct(Opinions(judged.tolist(), known))
        alone = enclose_share(round(judged.sum()), 1000)
        assert found is not None
        yield from draw_interval("judge", float(judged.mean()), alone, _TOP + _ROW * row)
        yield from draw_interval("people", found.value, found.interval, _TOP + _ROW * row + 7)
    share = place_at(people.mean())
    yield f'<line class="share" x1="{share}" y1="{_TOP - 10}" x2="{share}" y2="{height - 24}"/>'
    yield f'<text x="{share}" y="{_TOP - 13}" text-anchor="middle">people: {people.mean():.1%}</text>'
    for tick in (0.0, 0.2, 0.4, 0.6):
        yield f'<text x="{place_at(tick)}" y="{height - 8}" text-anchor="middle">{tick:.0%}</text>'
    yield "</svg>"


def place_at(share: float) -> float:
    """Return the horizontal place of a share from 0 to 0.7."""
    return round(_LEFT + share / 0.7 * (_WIDTH - 2 * _LEFT), 1)


def draw_interval(kind: str, value: float, ends: tuple[float, float], height: int) -> Iterator[str]:
    """Yield a line from end to end, with a dot at the value."""
    low, high = map(place_at, ends)
    yield f'<line class="{kind}" x1="{low}" y1="{height}" x2="{high}" y2="{height}" stroke-width="2"/>'
    yield f'<circle class="{kind}" cx="{place_at(value)}" cy="{height}" r="3"/>'


def read_judge(path: Path, pairs: list[list[str]]) -> Column:
    """Return the judge's verdict on each pair: 1 for a grade of 2 or more. Grades outside 0 to 3 count as 3."""
    grades = {(query, passage): float(grade) for query, _, passage, grade in map(str.split, path.open())}
    return np.array([float(grades.get((query, passage), 0.0) >= 2) for query, _, passage, _ in pairs])


def run_simulated(draws: int) -> Iterator[str]:
    """Yield coverage and width for judges of a given kappa, with 30 % of the replies good."""
    rng = np.random.default_rng(8)
    people = (rng.random(200_000) < 0.3).astype(float)
    for kappa, (replies, labels) in product((0.8, 0.9), ((200, 50), (400, 100), (1000, 100), (200, 100))):
        flips = (1 - kappa) * 0.3 * 0.7  # of each kind: they keep the share, and give this kappa
        chances = np.where(people == 1, flips / 0.3, flips / 0.7)
        judged = np.where(rng.random(len(people)) < chances, 1 - people, people)
        cell = measure(judged, people, replies, labels, draws, rng)
        yield f"kappa {kappa} N {replies:4} labels {labels:3}: covered {cell.covered:.1%}, width {cell.width:.3f}"


def run_search(draws: int) -> Iterator[str]:
    """Yield the worst cases: all cells with few draws, then the worst of them with all draws."""
    cells = [
        (labels, replies, *rates)
        for labels in (20, 30, 50, 100, 200, 500)
        for replies in {2 * labels, 1000, 4000}
        for rates in product((0.02, 0.3, 0.6, 0.9, 1.0), (0.02, 0.3, 0.6, 0.9, 1.0), (0.02, 0.05, 0.1, 0.3, 0.5))
        if replies >= labels
    ]
    rng = np.random.default_rng(1)
    for _ in range(2):
        found = [(search(cell, draws // 20, rng).covered, cell) for cell in cells]
        cells = [cell for _, cell in sorted(found)[: max(10, len(found) // 20)]]
    for cell in cells[:10]:
        labels, replies, sensitivity, specificity, share = cell
        exact = search(cell, draws, rng)
        yield (
            f"labels {labels} N {replies} sensitivity {sensitivity} specificity {specificity} share {share}: covered "
            f"{exact.covered:.1%} (too high {exact.above:.1%}, too low {exact.below:.1%})"
        )


def search(cell: tuple[int, int, float, float, float], draws: int, rng: np.random.Generator) -> Cell:
    """Return the measures of one case, from a pool of 200,000 replies."""
    labels, replies, sensitivity, specificity, share = cell
    people = (rng.random(200_000) < share).astype(float)
    chances = np.where(people == 1, sensitivity, 1 - specificity)
    return measure((rng.random(len(people)) < chances).astype(float), people, replies, labels, draws, rng)


def main() -> None:
    """Print a table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("part", choices=("real", "limits", "queries", "plot", "simulated", "search"))
    parser.add_argument("folder", type=Path, nargs="?")
    parser.add_argument("--draws", type=int, default=2000)
    given = parser.parse_args()
    lines = {
        "real": lambda: run_real(given.folder, given.draws),
        "limits": lambda: run_limits(given.folder, given.draws),
        "queries": lambda: run_queries(given.folder, given.draws),
        "plot": lambda: run_plot(given.folder, given.draws),
        "simulated": lambda: run_simulated(given.draws),
        "search": lambda: run_search(given.draws),
    }
    for line in lines[given.part]():
        print(line, flush=True)


if __name__ == "__main__":
    main()
