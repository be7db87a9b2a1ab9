"""Measure the commands on a gold set of 2,000 triples with 6,000 events.

A loop that only parses the same files with libyaml's loader runs in the same round, for comparison.
"""

import argparse
import json
import random
import sys
import tempfile
from pathlib import Path

from harness import EVALSPEC, PYTHON, cpu, describe_machine, peak, print_table, run_child, wall

from evalspec.curation.gold.event_files import event_name
from evalspec.curation.gold.files import render_yaml, to_plain
from evalspec.curation.gold.gold_set import hash_content
from evalspec.curation.gold.schema import Event, Flag, GoldTriple, Kind

PEOPLE = ("ada", "ben", "cleo", "dan")
PARSE = """
import sys, pathlib, yaml
for path in pathlib.Path(sys.argv[1]).rglob("*.yaml"):
    yaml.load(path.read_text(), yaml.CSafeLoader)
"""


def write_set(folder: Path, count: int) -> None:
    """Write a set with three events for each triple. One review of twelve is a flag."""
    chance = random.Random(1)
    (folder / "triples").mkdir(parents=True)
    (folder / "set.yaml").write_text(render_yaml({"name": "big", "people": {person: {} for person in PEOPLE}}))
    for number in range(count):
        triple = make_triple(number, chance)
        (folder / "triples" / f"t{number:05}.yaml").write_text(render_yaml(to_plain(triple)))
        events = folder / "events" / f"t{number:05}"
        events.mkdir(parents=True)
        author, first, second = chance.sample(PEOPLE, 3)
        head = {"revision": 1, "content_hash": hash_content(triple), "at": "2026-01-02T10:00:00Z"}
        flagged = {"kind": Kind.FLAG, "verdict": Flag.OVERSTATED, "category": "numeric"}
        review = flagged if chance.random() < 1 / 12 else {"kind": Kind.CONFIRM}
        said = ({"kind": Kind.ADD, "by": author}, {"kind": Kind.CONFIRM, "by": first}, {**review, "by": second})
        for one in said:
            event = Event.model_validate(head | one)
            (events / event_name(event)).write_text(render_yaml(to_plain(event)))


def make_triple(number: int, chance: random.Random) -> GoldTriple:
    """Return one triple of about the size of those in the field."""
    metadata = {
        "domain": chance.choice(["security", "health", "it"]),
        "difficulty": chance.choice(["standard", "hard"]),
        "source": chance.choice(["public", "public", "synthetic"]),
        "failure_mode": chance.choice(["numeric", "compound", "vocabulary"]),
        "added_by": "ada",
        "added_at": "2026-01-01",
    }
    content = {
        "question": f"How long does section {number} say that records of region {number % 7} are kept?\nBe exact.\n",
        "expected_block": {"block_id": f"b{number}", "document_id": f"d{number // 9}", "version": "2026-01"},
        "expected_answer": f"Records are kept for {number % 90} days at the storage layer.",
        "metadata": metadata,
    }
    return GoldTriple.model_validate(content)


def write_corpus(path: Path, count: int) -> None:
    """Write a corpus with the block of each triple."""
    documents = ({"id": f"b{n}", "text": f"Text {n}", "metadata": {"version": "2026-01"}} for n in range(count))
    path.write_text("".join(json.dumps(one) + "\n" for one in documents))


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--triples", type=int, default=2000)
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch) / "gold" / "big"
        write_set(folder, options.triples)
        write_corpus(Path(scratch) / "corpus.jsonl", options.triples)
        commands = {
            "parse with libyaml only": [PYTHON, "-c", PARSE, str(folder)],
            "gold lint": [EVALSPEC, "gold", "lint"],
            "gold stats": [EVALSPEC, "gold", "stats"],
            "gold slice": [EVALSPEC, "gold", "slice", "--size", "120", "--name", "s{}", "--as", "ada"],
            "gold check": [EVALSPEC, "gold", "check", "--corpus", "corpus.jsonl"],
        }
        rows = []
        for name, command in commands.items():
            costs = []
            for number in range(options.rounds):
                costs.append(run_child([part.format(number) for part in command], scratch))
                print(f"{name}: {costs[-1]}", file=sys.stderr)
            rows.append([name, f"{cpu(costs):.2f}", f"{wall(costs):.2f}", f"{peak(costs):.0f}"])
    print(f"{describe_machine()}; {options.triples:,} triples, {3 * options.triples:,} events")
    print_table(["command", "CPU s", "wall s", "peak MiB"], rows)


if __name__ == "__main__":
    main()
