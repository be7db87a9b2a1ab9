"""The commands of `evalspec gold`: who acts, what is shown, what stays hidden."""

import subprocess

import click
import pytest

from evalspec.cli import convert
from evalspec.cli.gold import COMMANDS
from evalspec.cli.gold import command as gold_command
from evalspec.curation.gold.protocol import add_triple, resolve, review
from gold_sets import accept, make_set, make_triple


@pytest.fixture
def root(project):
    return make_set(project.folder / "evals" / "gold" / "help")


def test_a_set_from_nothing_to_an_accepted_triple(project):
    people = [part for name in ("ada", "ben", "cleo") for part in ("--person", name)]
    assert project("gold", "init", "gold/help", *people).code == 0
    add = ("gold", "add", "refund", "--question", "How long?", "--block", "refunds@v1", "--answer", "14 days")
    (added,) = project(*add, "--meta", "domain=billing", "--as", "ada", "--json").document["triples"]
    assert (added["state"], added["next"]) == ("pending", "2 more confirmations")
    shown = project("gold", "next", "--as", "ben", "--json").document["triple"]
    assert (shown["question"], shown["expected_block"]) == ("How long?", {"block_id": "refunds", "version": "v1"})
    project("gold", "review", "refund", "confirm", "--as", "ben")
    told = project("gold", "review", "refund", "confirm", "--as", "cleo")
    assert told.out.strip() == "refund@1  accepted (consensus)"
    assert project("gold", "lint").code == 0


def test_git_knows_who_acts(project, root):
    add_triple(root, "refund", make_triple(), "ada")
    subprocess.run(["git", "init", "-q"], cwd=project.folder, check=True)
    for key, value in (("user.name", "Ben Somebody"), ("user.email", "ben@example.com")):
        subprocess.run(["git", "config", key, value], cwd=project.folder, check=True)
    assert project("gold", "review", "refund", "confirm", "--json").document["triples"][0]["reviewedBy"] == ["ben"]
    subprocess.run(["git", "config", "user.email", "eve@example.com"], cwd=project.folder, check=True)
    told = project("gold", "review", "refund", "confirm")
    assert told.code == 2
    assert "git says Ben Somebody <eve@example.com>, who is not in set.yaml" in told.err


def test_no_review_is_shown_before_your_own(project, root):
    add_triple(root, "refund", make_triple(), "ada")
    review(root, "refund", "ben", "overstated", category="numeric", note="The block says 30.")
    for command in (("log", "refund"), ("next",)):
        told = project("gold", *command, "--as", "cleo", "--json")
        assert "overstated" not in told.out + told.err
        assert "The block says 30." not in told.out + told.err
        assert "ben" not in told.out + told.err
    project("gold", "review", "refund", "confirm", "--as", "cleo")
    assert "flag  overstated  numeric  The block says 30." in project("gold", "log", "refund", "--as", "cleo").out


def test_the_only_set_is_found_and_several_are_named(project, root):
    accept(root, "refund")
    assert project("gold", "list", "--json").document["states"] == {"accepted": 1}
    make_set(project.folder / "gold" / "other")
    told = project("gold", "list")
    assert told.code == 2
    assert "found 2 gold sets under gold/ and evals/gold/: evals/gold/help, gold/other. give --set" in told.err
    assert project("gold", "list", "--set", "gold/other").code == 0


def test_help_fits_on_a_terminal_and_an_option_means_one_thing(project, monkeypatch):
    """The value of an option is of the same kind in every command, also in `evalspec convert`."""
    monkeypatch.setenv("COLUMNS", "80")
    kinds = {}
    for name in COMMANDS:
        lines = project("gold", name, "--help").out.splitlines()
        assert [line for line in lines if len(line) > 80] == []
    for command in (*(gold_command.get_command(None, name) for name in COMMANDS), convert.command):
        for option in (one for one in command.params if isinstance(one, click.Option) and not one.is_flag):
            kinds.setdefault(option.opts[-1], set()).add(option.metavar)
    assert {name: found for name, found in kinds.items() if len(found) > 1} == {}


def test_an_unknown_id_does_not_list_thousands(project, root):
    for number in range(62):
        (root / "triples" / f"t{number:02}.yaml").write_text("question: q\nexpected_block: {block_id: b}\n")
    told = project("gold", "log", "zzzz", "--as", "ada")
    assert told.err.endswith(", t18, t19 and 42 more\n")


def test_a_set_of_two_people_is_created_with_a_warning(project):
    told = project("gold", "init", "gold/small", "--person", "ada", "--person", "ben")
    assert told.code == 0
    assert "no triple can be accepted yet: each needs an author and 2 other people" in told.err
    assert "add people to gold/small/set.yaml" in told.err


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("nxet",), "unknown command 'gold nxet'. did you mean 'next'? see evalspec gold --help"),
        (("calibrate", "bne", "--as", "ada"), "in set.yaml; add new people there. did you mean 'ben'?"),
        (("lint", "--set", "gold/none"), "gold/none: there is no set.yaml"),
        (("add", "x", "--question", "q", "--as", "ada"), "expected_block: this key is required"),
        (
            ("add", "x", "--question", "q", "--block", "b@latest", "--as", "ada"),
            "'latest' changes with the document. write the",
        ),
        (("add", "x", "--question", "q", "--block", "b", "--meta", "x", "--as", "ada"), "'x' is not KEY=VALUE"),
        (("init", "gold/x", "--person", "a/b"), "people.a/b: 'a/b' cannot be a file name. use letters, digits and"),
        (
            ("grant", "--customer", "x", "--evidence", "e", "--expires", "6/2027", "--as", "ada"),
            "'6/2027' is not a day. write it as",
        ),
        (
            ("grant", "--customer", "x", "--evidence", "e", "--expires", "2027-02-30", "--as", "ada"),
            "'2027-02-30' is not a day. write it as",
        ),
        (("add", "x", "--file", "none.yaml", "--as", "ada"), "none.yaml: no such file"),
        (("review", "x", "maybe", "--as", "ada"), "'maybe' is not one of 'confirm', 'question_unrealistic'"),
    ],
)
def test_wrong_use_is_one_clear_line(project, root, arguments, said):
    told = project("gold", *arguments)
    assert told.code == 2
    assert said in told.err


def test_the_list_hides_what_others_said_until_your_own_review(project, root):
    add_triple(root, "refund", make_triple(), "ada")
    review(root, "refund", "ben", "overstated", category="numeric")
    (hidden,) = project("gold", "list", "--as", "cleo", "--json").document["entries"]
    assert (hidden["state"], hidden["next"]) == ("to review", "your review, cleo")
    assert "overstated" not in str(hidden)
    (seen,) = project("gold", "list", "--as", "ada", "--json").document["entries"]
    assert (seen["state"], seen["openFlags"]) == ("disputed", {"ben": "overstated"})
    add_triple(root, "plan", make_triple("Which plan?"), "ada")
    both = "plan@1    to review  your review, cleo\nrefund@1  to review  your review, cleo\n"
    for state, shown in (("pending", ""), ("disputed", ""), ("to review", both)):
        listed = project("gold", "list", "--as", "cleo", "--state", state)
        assert listed.out == shown
        assert listed.err == "help: 2 to review\n", "neither a filter nor a count says which one is disputed"
    assert project("gold", "list", "--as", "cleo", "--json").document["states"] == {"to review": 2}


def test_the_list_is_aligned_and_says_no_word_twice(project, root):
    accept(root, "a-long-name")
    add_triple(root, "b", make_triple("Who?"), "ada")
    review(root, "b", "ben", "wrong_block")
    resolve(root, "b", "ada", "dropped")
    add_triple(root, "c", make_triple("Why?"), "ada")
    assert project("gold", "list", "--as", "ada").out.splitlines() == [
        "a-long-name@1  accepted (consensus)",
        "b@1            dropped",
        "c@1            pending               2 more confirmations",
    ]


def test_a_set_without_events_is_adopted_and_never_changed_in_passing(project, root):
    """Its first event would end the review status of all other triples."""
    (root / "events").rmdir()
    content = "question: {0}\nexpected_block: {{block_id: b, version: v1}}\n"
    line = content + "metadata: {{source: public, added_by: ada{1}}}\n"
    reviewed = ", reviewed_by: [ben, cleo], resolution: consensus"
    for name, more in (("one", reviewed), ("two", reviewed), ("three", "")):
        (root / "triples" / f"{name}.yaml").write_text(line.format(name, more))
    told = project("gold", "review", "three", "confirm", "--as", "dan", "--set", str(root))
    assert told.code == 2
    assert "the set has no events" in told.err
    assert project("gold", "list", "--json", "--set", str(root)).document["states"] == {"pending": 1, "accepted": 2}
    people = [part for name in ("ada", "ben", "cleo", "dan") for part in ("--person", name)]
    project("gold", "init", "gold/new", *people)
    new = ("--set", "gold/new")
    told = project("convert", str(root / "triples"), "out.jsonl", "--to", "jsonl")
    assert (told.code, "this is part of the gold set evals/gold/help" in told.err) == (2, True)
    parts = ((root / "triples" / "one.yaml", {"accepted": 1}), (root / "triples", {"pending": 1, "accepted": 2}))
    for source, states in (*parts, (root, parts[-1][1])):
        assert project("gold", "import", str(source), "--keep-reviews", "--as", "ada", *new).code == 0
        assert project("gold", "list", "--json", *new).document["states"] == states


def test_the_list_fails_if_a_triple_cannot_be_read(project, root):
    add_triple(root, "x", make_triple(), "ada")
    (root / "triples" / "broken.yaml").write_text("question: [")
    shown = project("gold", "list", "--json")
    assert (shown.code, shown.document["exitCode"], len(shown.document["entries"])) == (2, 2, 1)
    assert "broken.yaml" in shown.document["problems"][0]["file"]


def test_assigning_and_splitting_tell_nothing_to_somebody_who_should_review(project, root):
    add_triple(root, "x", make_triple(), "ada")
    review(root, "x", "ben", "overstated")
    told = project("gold", "assign", "x", "--reviewer", "dan", "--as", "cleo", "--json")
    assert (told.document["triples"][0]["state"], "overstated" in told.out) == ("to review", False)
    refused = project("gold", "split", "x", "--claim", "a", "--claim", "b", "--as", "cleo")
    assert (refused.code, "review it: evalspec gold review x" in refused.err, "ben" in refused.err) == (2, True, False)
