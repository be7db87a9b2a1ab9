"""How well grounding_overlap ranks a right answer above a hallucinated one, beside the length of the answers.

    python benchmarks/grounding.py PATH/halueval-qa/qa.jsonl

Each line of the file has `knowledge`, `right_answer` and `hallucinated_answer` (HaluEval, MIT licence). In HaluEval the
hallucinated answer is mostly longer, so a metric that only prefers short answers looks good. The control: pairs whose
lengths differ by at most two words.
"""

import argparse
import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from evalspec.scoring.metrics.grounding import compute_overlap, list_units

Pair = Mapping[str, str]
Measure = Callable[[str, str], float | None]
_NEAR_WORDS = 2


def measure_overlap(answer: str, knowledge: str) -> float | None:
    """Return the metric's value; None if it is not applicable."""
    units = list_units(answer)
    return compute_overlap(units, [knowledge])[0] if units else None


def measure_brevity(answer: str, _knowledge: str) -> float:
    """Return a value that is higher for shorter answers."""
    return -float(len(answer.split()))


def count_words(pair: Pair) -> int:
    """Return by how many words the two answers differ in length."""
    return abs(len(pair["right_answer"].split()) - len(pair["hallucinated_answer"].split()))


def describe(pairs: Sequence[Pair], measure: Measure) -> str:
    """Return the share of pairs whose right answer is ranked above the other. Ties count half."""
    values = [
        [measure(pair[key], pair["knowledge"]) for key in ("right_answer", "hallucinated_answer")] for pair in pairs
    ]
    scored = [(right, wrong) for right, wrong in values if right is not None and wrong is not None]
    if not scored:
        return "no pair is scored"
    won = sum((right > wrong) + (right == wrong) / 2 for right, wrong in scored)
    return f"{won / len(scored):.1%} of {len(scored)} pairs ({len(pairs) - len(scored)} not applicable)"


def main() -> None:
    """Print a line per set of pairs and measure."""
    options = argparse.ArgumentParser(description="Rank right answers above hallucinated ones.")
    options.add_argument("path", type=Path)
    path = options.parse_args().path
    if not path.is_file():
        print(f"{path} does not exist; nothing is measured")
        return
    pairs = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    near = [pair for pair in pairs if count_words(pair) <= _NEAR_WORDS]
    for title, some in (("all pairs", pairs), (f"lengths within {_NEAR_WORDS} words", near)):
        print(f"{title}: grounding_overlap {describe(some, measure_overlap)}")
        print(f"{title}: shorter answer    {describe(some, measure_brevity)}")


if __name__ == "__main__":
    main()
