"""Measure `evalspec compare` on two reports of 100,000 samples with 10,000 resamples: CPU and memory of the process."""

import argparse
import random
import tempfile
from pathlib import Path

from harness import EVALSPEC, PYTHON, cpu, describe_machine, interleave, peak, print_goal, print_table, run_child, wall

from evalspec.model import (
    DatasetResult,
    Direction,
    Run,
    SampleResult,
    SampleStatus,
    Score,
    SliceResult,
    VerdictStatus,
)
from evalspec.reports.json_report import render_json
from evalspec.verdict.outline import MetricOutline
from evalspec.verdict.summary import group_by_slice, summarise

LATENCY = "latency_p95"
READ = """
import sys
from pathlib import Path
from evalspec.model.report_reading import read_report
runs = [read_report(Path(name)) for name in sys.argv[1:]]
"""


def write_report(path: Path, samples: int, seed: int) -> None:
    """Write a report with five metrics (binary, graded, two judged, latency) and seven slices.

    All reports have the same questions.
    """
    questions, noise = random.Random(1), random.Random(seed)
    results = []
    for number in range(samples):
        level = questions.betavariate(8, 2)
        scores = {
            "string_match": float(noise.random() < 0.8),
            "Recall@5": noise.randrange(6) / 5,
            "faithfulness": min(1.0, max(0.0, level + noise.gauss(0, 0.05))),
            "answer_relevancy": noise.betavariate(8, 2),
            LATENCY: noise.lognormvariate(6, 1),
        }
        why = "1 of 4 statements is not supported: 'It takes two days.'" if scores["faithfulness"] < 0.8 else None
        results.append(
            SampleResult(
                id=f"sample-{number:06}",
                status=SampleStatus.ANSWERED,
                tags=("odd" if number % 2 else "even",),
                metadata={"source": f"s{number % 5}"},
                latency_ms=scores[LATENCY],
                scores={m: Score.scored(v, why if m == "faithfulness" else None) for m, v in scores.items()},
                line=number + 1,
                pass_rate=scores["string_match"],
            )
        )
    outlines = [
        MetricOutline(metric, "mean", Direction.HIGHER, (0.0, 1.0)) for metric in results[0].scores if metric != LATENCY
    ]
    outlines.append(MetricOutline(LATENCY, "p95", Direction.LOWER, (0.0, None)))
    dataset = DatasetResult(
        name="parcels",
        samples=tuple(results),
        metrics=summarise(results, outlines),
        thresholds=(),
        slices=tuple(
            SliceResult(name=name, selected=len(members), metrics=summarise(members, outlines))
            for name, members in group_by_slice(results, ["tags", "source"]).items()
        ),
    )
    path.write_text(
        render_json(Run(id=path.stem, verdict=VerdictStatus.NOT_GATED, exit_code=0, datasets=(dataset,))),
        encoding="utf-8",
    )


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--write", type=Path, help=argparse.SUPPRESS)
    options.add_argument("--seed", type=int, default=1, help=argparse.SUPPRESS)
    options.add_argument("--rounds", type=int, default=3)
    options.add_argument("--samples", type=int, default=100_000)
    chosen = options.parse_args()
    if chosen.write:  # in a separate process: a child's peak memory is never below its parent's
        write_report(chosen.write, chosen.samples, chosen.seed)
        return
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        for seed, name in enumerate(("a.json", "b.json"), 1):
            sizes = ["--samples", str(chosen.samples), "--seed", str(seed)]
            run_child([PYTHON, __file__, "--write", str(folder / name), *sizes])
        size = (folder / "a.json").stat().st_size / 2**20
        commands = {
            "reading both reports": [PYTHON, "-c", READ, "a.json", "b.json"],
            "evalspec compare": [EVALSPEC, "compare", "a.json", "b.json", "--resamples", "10000"],
            "the same, --json": [EVALSPEC, "compare", "a.json", "b.json", "--json"],
        }
        costs = interleave(commands, chosen.rounds, cwd=folder)
    print(
        f"{describe_machine('numpy')}; two reports of {size:.0f} MiB; medians of {chosen.rounds} interleaved rounds\n"
    )
    rows = [[name, f"{cpu(c):.2f}", f"{wall(c):.2f}", f"{peak(c):.0f}"] for name, c in costs.items()]
    print_table([f"{chosen.samples:,} samples", "CPU s", "wall s", "peak MiB"], rows)
    print()
    print_goal("compare of two reports, CPU", cpu(costs["evalspec compare"]), 15, " s")
    print_goal("the same, peak memory", peak(costs["evalspec compare"]), 1000, " MiB")


if __name__ == "__main__":
    main()
