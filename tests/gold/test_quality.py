"""Disputes, the quality tracker, the balance of sources, and coverage."""

import pytest

from evalspec import gold
from evalspec.base.errors import InvalidInput
from evalspec.curation.gold.authoring import revise_edited
from evalspec.curation.gold.protocol import resolve, retire
from evalspec.verdict.validity.cells import compute_coverage

MORNING, NOON, NEXT = "2026-03-01T08:00:00Z", "2026-03-01T12:00:00+01:00", "2026-03-02"


def outcomes_of(found):
    return {one.category: dict(one.outcomes) for one in found.disputes}


def test_disputes_by_category_and_outcome(curated):
    root = curated.root
    for name in ("upheld", "dropped", "open", "revised", "twice", "third", "gone", "fine"):
        curated.add(name)
        curated.say(name, MORNING, ben="confirm" if name == "fine" else "overstated/compound")
    for who in ("ben", "ada"):
        resolve(root, "upheld", who, "upheld", category="synonym", at=NOON)
    resolve(root, "dropped", "ada", "dropped", at=NOON)
    path = root / "triples" / "revised.yaml"
    path.write_text(path.read_text().replace("14 days", "15 days"))
    revise_edited(root, "revised", "ada")
    curated.say("revised", MORNING, ben="wrong_block")
    curated.say("twice", NOON, cleo="not_entailed")
    curated.say("third", MORNING, cleo="confirm")
    resolve(root, "third", "dan", "upheld", at=NEXT)
    retire(root, "gone", "dan", at=NEXT)
    found = gold.stats(root)
    assert outcomes_of(found) == {
        "synonym": {"upheld": 1},
        "compound": {"dropped": 1, "open": 1, "revised": 1, "two flags": 1, "adjudicated: upheld": 1, "retired": 1},
        None: {"open": 1},
    }
    (dropped,) = found.dropped
    assert (dropped.id, dropped.author) == ("twice", "ada")
    assert [(one.by, one.verdict, one.category) for one in dropped.flags] == [
        ("ben", "overstated", "compound"),
        ("cleo", "not_entailed", None),
    ]


def test_times_of_wrong_clocks_are_unknown(curated):
    """08:00Z to 12:00+01:00 are three hours. The clock of one resolution was set back; another has an invalid date."""
    times = {"good": NOON, "back": "2026-02-28T23:00:00Z", "never": "2026-02-31", "slow": "2026-03-03T08:00"}
    times["first"] = "0001-01-01T00:00+05:00"  # before the first year of UTC
    for name, at in times.items():
        curated.add(name)
        curated.say(name, MORNING, ben="overstated")
        resolve(curated.root, name, "ada", "dropped", at=at)
    for name in ("open", "agreed"):
        curated.add(name)
        curated.say(name, MORNING, ben="overstated")
    for who, at in {"ben": NOON, "ada": "2026-03-01T13:00:00Z"}.items():
        resolve(curated.root, "agreed", who, "upheld", at=at)  # the second word ends it, after five hours
    found = gold.stats(curated.root).resolution_time
    assert (found.known, found.unknown, found.still_open) == (3, 3, 1)
    assert (found.median, found.longest) == (5, 48)


def accept(curated, count, prefix="", **metadata):
    for number in range(count):
        curated.add(f"{prefix}{number}", **metadata)
        curated.say(f"{prefix}{number}", ben="confirm", cleo="confirm")


def test_sources_need_enough_triples_to_be_unbalanced(curated):
    """All of three triples are public. That says nothing; all of fifteen cannot be chance."""
    accept(curated, 3)
    curated.add("pending", source="synthetic")
    assert [(one.triples, one.status) for one in gold.stats(curated.root).sources] == [
        (3, "unknown"),
        (0, "unknown"),
        (0, "unknown"),
    ]
    accept(curated, 12, "more")
    found = gold.stats(curated.root).sources
    assert [(one.source, one.status) for one in found] == [
        ("public", "unbalanced"),
        ("customer", "unknown"),
        ("synthetic", "unknown"),
    ]


def test_thin_cells_are_named(curated):
    accept(curated, 3, "a", domain="it", difficulty="hard")
    accept(curated, 1, "b", domain="health", difficulty="standard")
    accept(curated, 2, "c", domain="it")
    curated.add("pending", domain="law", difficulty="hard")
    found = gold.stats(curated.root).coverage
    assert found.keys == ("domain", "difficulty")
    assert [(one.name, one.count) for one in found.sparse] == [
        ("health × hard", 0),
        ("it × standard", 0),
        ("health × standard", 1),
    ]
    assert (found.cells, found.unplaced) == (4, {"difficulty": 2})


def test_no_metadata_have_no_cells():
    assert (compute_coverage([{}, {"x": 1}], 3).keys, compute_coverage([], 3).sparse) == ((), ())


def test_an_edited_calibration_is_refused(curated):
    gold.calibrate(curated.root, "ben", "ada")
    (path,) = (curated.root / "calibrations").iterdir()
    path.write_text(path.read_text().replace("ben", "cleo"))
    with pytest.raises(InvalidInput, match="edited after it was written"):
        gold.stats(curated.root)
    path.write_text(path.read_text().replace("cleo", "eve"))
    with pytest.raises(InvalidInput, match="'eve' is not one of the people"):
        gold.stats(curated.root)
