"""Slices of a gold set: who is drawn, what a slice keeps when triples change, and how it is refused."""

import random
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from fractions import Fraction
from pathlib import Path

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from evalspec import gold
from evalspec.base.errors import InvalidInput
from evalspec.curation.gold.authoring import create_set, read_triple
from evalspec.curation.gold.linting import lint
from evalspec.curation.gold.protocol import add_triple, resolve, retire, review, revise_triple
from evalspec.curation.gold.schema import Person

DOMAINS = ("federal", "health", "security")


def mixed(count, seed=1):
    """Metadata of `count` triples in 12 strata of unequal sizes, and one alone in its stratum."""
    rng = random.Random(seed)
    found = {
        f"t{n:03}": {
            "domain": rng.choice((*DOMAINS, "federal")),
            "difficulty": rng.choice(("standard", "standard", "hard")),
            "source": rng.choice(("public", "synthetic")),
        }
        for n in range(count)
    }
    alone = next(name for name in map("alone{}".format, range(99)) if not gold.is_held_out(name, 0.2))
    return found | {alone: {"domain": "rare"}}


def stratum(metadata):
    return tuple(metadata.get(key) for key in ("domain", "difficulty", "source"))


def read_slice(root, name):
    return yaml.safe_load((root / "slices" / f"{name}.yaml").read_text())


def test_each_stratum_has_its_share_and_at_least_one(write_set):
    metadata = mixed(300)
    root = write_set(metadata)
    drawn = gold.draw_slice(root, "q4", 48, "ada", seed=3)
    members = [one.partition("@")[0] for one in read_slice(root, "q4")["triples"]]
    free = [name for name in metadata if not gold.is_held_out(name, 0.2)]
    assert len(members) == 48
    assert drawn.pool.held_out == 301 - len(free)
    assert set(members) <= set(free), "the held-out share is in no slice"
    sizes = Counter(stratum(metadata[name]) for name in free)
    counts = Counter(stratum(metadata[name]) for name in members)
    assert counts.keys() == sizes.keys()
    for one, size in sizes.items():
        assert abs(counts[one] - Fraction(48 * size, len(free))) < 1 or counts[one] == 1
    few = gold.draw_slice(root, "few", 3, "ada")
    assert len(few.slice.entries) == 3, "fewer places than strata"


def test_a_draw_is_the_same_on_every_machine(write_set):
    root = write_set({f"t{n}": {} for n in range(60)})
    assert gold.draw_slice(root, "a", 4, "ada", seed=1).slice.file.triples == ["t10@1", "t27@1", "t37@1", "t43@1"]


def test_slices_are_disjoint_until_all_triples_are_used(write_set):
    root = write_set(mixed(60))
    free = len(gold.open_set(root).list_accepted()) - len(gold.list_held_out(gold.open_set(root)))
    for number in range(2):
        gold.draw_slice(root, f"s{number}", free // 3, "ada", seed=number)
    with pytest.raises(InvalidInput, match=rf"{free - 2 * (free // 3)} triples are left in round 1. use --size"):
        gold.draw_slice(root, "s2", free, "ada")
    gold.draw_slice(root, "s2", free - 2 * (free // 3), "ada")
    slices = gold.read_slices(root)
    members = [one for found in slices.values() for one in found.revisions]
    assert len(members) == len(set(members)) == free
    again = gold.draw_slice(root, "s3", free // 2, "ben")
    assert (again.slice.file.round, {one.round for one in slices.values()}) == (2, {1})
    rest = gold.draw_slice(root, "s4", free - free // 2, "ben")
    assert rest.slice.file.round == 2
    assert rest.slice.file.revisions.keys().isdisjoint(again.slice.file.revisions)
    assert lint(root).problems == []


@given(st.text(), st.floats(0, 1), st.floats(0, 1))
def test_a_larger_held_out_share_contains_a_smaller_one(name, one, other):
    if gold.is_held_out(name, min(one, other)):
        assert gold.is_held_out(name, max(one, other))
    assert not gold.is_held_out(name, 0)
    assert gold.is_held_out(name, 1)


def test_the_held_out_share_has_about_its_size_and_never_changes():
    held_out = [n for n in range(5000) if gold.is_held_out(f"t{n}", 0.2)]
    assert 0.18 < len(held_out) / 5000 < 0.22
    assert held_out[:5] == [22, 38, 39, 46, 47]


def accept(root, name, answer="14 days", **metadata):
    pairs = [f"{key}={value}" for key, value in metadata.items()]
    add_triple(root, name, read_triple(question=f"{name}?", blocks=["b"], answer=answer, metadata=pairs), "ada")
    for person in ("ben", "cleo"):
        review(root, name, person)


@pytest.fixture
def reviewed(project):
    """A set with events: six accepted triples, one of each in a slice of all."""
    root = Path("gold/help")
    create_set(root, "help", {name: Person() for name in ("ada", "ben", "cleo")})
    for name in ("as-is", "flagged", "old", "revised", "stays", "twice"):
        accept(root, name)
    config = yaml.safe_load((root / "set.yaml").read_text())
    (root / "set.yaml").write_text(yaml.safe_dump(config | {"rules": {"held_out": 0.0}}))
    gold.draw_slice(root, "all", 6, "ada")
    return root


def test_of_two_draws_at_once_the_second_sees_the_first(reviewed):
    for name in ("new-1", "new-2", "new-3"):
        accept(reviewed, name)

    def outcome(seed):
        try:
            return gold.draw_slice(reviewed, "q", 2, "ada", seed=seed).slice.file
        except InvalidInput as error:
            return str(error)

    with ThreadPoolExecutor() as threads:
        said = list(threads.map(outcome, range(4)))
    refused = [one for one in said if isinstance(one, str)]
    assert (len(refused), all("the slice 'q' exists" in one for one in refused)) == (3, True)
    assert [one for one in said if one not in refused] == [gold.read_slices(reviewed)["q"]]


def test_a_slice_is_never_refilled_and_names_what_it_lost(reviewed):
    retire(reviewed, "old", "ada")
    triple = gold.open_set(reviewed).find("revised").triple
    revise_triple(reviewed, "revised", triple.model_copy(update={"expected_answer": "30 days"}), "ada")
    for person in ("ben", "cleo"):
        review(reviewed, "revised", person)
    accept(reviewed, "new")
    found = gold.open_slice(gold.open_set(reviewed), "all")
    assert [entry.id for entry in found.entries] == ["as-is", "flagged", "stays", "twice"]
    assert found.missing == {"retired": ["old"], "revised": ["revised"]}
    assert found.describe_missing() == "2 of 6 triples are left out: 1 retired (old), 1 revised (revised)"
    assert gold.open_set(reviewed).find("revised").is_accepted, "accepted again, but as other content"
    (reviewed / "triples/twice.yaml").write_text("question: Edited?\nexpected_block: {block_id: b}\n")
    assert gold.open_slice(gold.open_set(reviewed), "all").missing["revised"] == ["revised", "twice"]


def test_a_dropped_triple_and_a_grown_held_out_share(reviewed):
    add_triple(reviewed, "bad", read_triple(question="?", blocks=["b"]), "ada")
    review(reviewed, "bad", "ben", "wrong_block")
    resolve(reviewed, "bad", "ada", "dropped")
    config = yaml.safe_load((reviewed / "set.yaml").read_text())
    (reviewed / "set.yaml").write_text(yaml.safe_dump(config | {"rules": {"held_out": 1.0}}))
    found = gold.open_slice(gold.open_set(reviewed), "all")
    assert (found.entries, list(found.missing)) == ([], ["held out"])
    with pytest.raises(InvalidInput, match=r"no accepted triple can be in a slice.*6 accepted triples are held out"):
        gold.draw_slice(reviewed, "b", 1, "ada")


def test_hand_edited_slices_are_explained_by_lint(write_set):
    root = write_set({f"t{n}": {} for n in range(30)}, rules={"held_out": 0.0})
    gold.draw_slice(root, "a", 3, "ada")
    first = read_slice(root, "a")
    merged = {**first, "name": "b", "triples": [*first["triples"][:2], "gone@1"]}
    (root / "slices/b.yaml").write_text(yaml.safe_dump(merged))
    (root / "slices/c.yaml").write_text(yaml.safe_dump({**first, "triples": first["triples"][:1]}))
    (root / "slices/d.yaml").write_text(yaml.safe_dump({**first, "triples": first["triples"][:1] * 2}))
    (root / "slices/e.yaml").write_text("name: [")
    said = [problem.render() for problem in lint(root).problems]
    both = ", ".join(one.partition("@")[0] for one in first["triples"][:2])
    assert any(f"slices/b.yaml: triples: {both} are also in slice 'a' of round 1" in one for one in said)
    assert any("slices/b.yaml: triples: no such triple: gone" in one for one in said)
    assert any("slices/c.yaml: name: the slice is 'a', but the file is c.yaml" in one for one in said)
    assert any("slices/c.yaml: triples: the slice lists 1 triples, but 3 were drawn" in one for one in said)
    assert any("slices/d.yaml" in one and "listed twice" in one for one in said)
    assert any(one.startswith("gold/rfp/slices/e.yaml:1") for one in said)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--size", "3"), "a new slice needs --size and --name"),
        (("--size", "3", "--name", "A"), "the slice 'a' exists"),
        (("--size", "3", "--name", "x/y"), "--name: 'x/y' cannot be a file name"),
        (("--size", "3", "--name", "b", "--as", "dan"), "'dan' is not one of the people"),
        (("--size", "30", "--name", "b"), "--size: 30 is too large"),
        (("--show", "b"), "there is no slice 'b'. known: a"),
        (("--show", "a", "--size", "3"), "remove --size and --name"),
    ],
)
def test_what_cannot_be_drawn_is_one_clear_line(write_set, project, arguments, message):
    root = write_set({f"t{n}": {} for n in range(30)})
    gold.draw_slice(root, "a", 3, "ada")
    outcome = project(
        "gold", "slice", *arguments, *(() if "--as" in arguments or "--show" in arguments else ("--as", "ada"))
    )
    assert (outcome.code, len(outcome.err.strip().splitlines())) == (2, 1)
    assert message in outcome.err
    assert [path.name for path in (root / "slices").iterdir()] == ["a.yaml"], "nothing is written"


def test_the_document_of_a_slice(write_set, project):
    root = write_set(mixed(100))
    document = project("gold", "slice", "--size", "20", "--name", "q4", "--as", "ada", "--json").document
    assert document["file"] == str(root.relative_to(project.folder) / "slices/q4.yaml")
    assert (len(document["triples"]), document["usable"], document["round"], document["missing"]) == (20, 20, 1, {})
    assert sum(one["triples"] for one in document["strata"]) == 20
    assert sum(one["poolSize"] for one in document["strata"]) == document["pool"]["size"]
    assert "\n  " in project("gold", "slice", "--show", "q4").out, "strata are indented below the slice"
    shown = project("gold", "slice", "--show", "q4", "--json").document
    assert shown["triples"] == document["triples"]
    assert {tuple(one[key] for key in ("domain", "triples")) for one in shown["strata"]} == {
        (one["domain"], one["triples"]) for one in document["strata"] if one["triples"]
    }
    assert document["signal"]["reason"] == "0 of 8 full runs stored"
