"""One comparison that holds what its reports must be able to say.

`python tests/comparison/sample_comparison.py` rewrites the golden files. Read the difference before you commit it.
"""

import random
import sys
from functools import cache
from pathlib import Path

from msgspec.structs import replace

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parents[1]))

from comparison.small_runs import make_dataset, make_sample, run_of
from evalspec.model import Run, Score
from evalspec.model.comparisons import Comparison, RankMove, SideBySide
from evalspec.reports.markdown import render_view_markdown
from evalspec.reports.terminal import render_view_terminal
from evalspec.reports.view.comparison import build_comparison_view
from evalspec.verdict.comparison.compare_runs import Choice, compare_runs
from evalspec.verdict.comparison.named_runs import NamedRun
from evalspec.verdict.validity.changes import SignificanceRules

GOLDEN = Path(__file__).parent / "golden"
HOSTILE = "\x1b[2J`q|7` [red]<b>\u202e"
SAMPLES_SHOWN = 3


@cache
def sample_comparison(candidates: int = 1) -> Comparison:
    """Forty questions; the candidates find more and answer worse, and are asked two further questions."""
    baseline = NamedRun("main", _make_run("20261120T080000Z-0a1b2c3d", 0, "x"), notes=("main: an old report",))
    names = ("bm25+rerank", "dense")[:candidates]
    others = [NamedRun(name, _make_run(f"2026112{n}T080000Z-4e5f6a7b", n, "y")) for n, name in enumerate(names, 1)]
    return compare_runs(baseline, others, SignificanceRules(resamples=2000), Choice(allow_mismatch=True))


def with_texts(comparison: Comparison) -> Comparison:
    """The comparison with what the two answered to the sample that changed most."""
    one, *others = comparison.candidates
    dataset = one.datasets[0]
    worst, *rest = dataset.samples
    found = SideBySide(
        "Where?",
        "In Paris.",
        f"Nowhere {HOSTILE}",
        (RankMove("d1", 1, 4), RankMove("d2", 3, None), RankMove("d3", None, 2)),
    )
    shown = replace(dataset, samples=(replace(worst, texts=found), *rest))
    return replace(comparison, candidates=(replace(one, datasets=(shown,)), *others))


@cache
def golden_reports() -> dict[str, str]:
    """Each golden file with what it should hold."""
    one, two = sample_comparison(), sample_comparison(2)
    views = {
        "comparison": build_comparison_view(with_texts(one), SAMPLES_SHOWN),
        "candidates": build_comparison_view(two, 1),
    }
    terminal = {f"{name}.txt": render_view_terminal(view, width=120, color=False) for name, view in views.items()}
    return terminal | {f"{name}.md": render_view_markdown(view) for name, view in views.items()}


def _make_run(run_id: str, shift: int, sha: str) -> Run:
    draw = random.Random(7)
    samples = []
    for number in range(42 if shift else 40):
        level, luck = draw.random(), draw.random()
        scores: dict[str, float | Score] = {
            "string_match": float(luck > (0.15, 0.45, 0.2)[shift]),
            "Recall@5": min(1.0, round(level, 1) + 0.1 * shift),
            "faithfulness": min(1.0, max(0.0, level + 0.02 * shift * draw.gauss(0, 1))),
            "hallucination": 0.1,
            "latency_p95": 800 + 400 * level + (10 * draw.gauss(0, 1) if shift else 0),
        }
        if shift and number == 5:
            scores["faithfulness"] = Score.failed("judge down")
        name = HOSTILE if number == 3 else f"q{number}"
        tags = ("few",) if number < 3 else ("easy" if level > 0.5 else "hard",)
        samples.append(make_sample(name, scores, tags=tags))
    described = {"name": "rag", "sha256": sha, "metricIdentities": {metric: {"version": "1"} for metric in scores}}
    fingerprint = {"datasets": [described], "versions": {"evalspec": f"0.{shift}"}}
    return run_of(make_dataset(samples, "rag", ["tags"]), run_id=run_id, fingerprint=fingerprint)


if __name__ == "__main__":
    GOLDEN.mkdir(exist_ok=True)
    for name, text in golden_reports().items():
        (GOLDEN / name).write_text(text, encoding="utf-8")
