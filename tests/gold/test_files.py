"""What a set is on disk: in git, edited by hand, damaged."""

import json
import os
import shutil
import subprocess
from pathlib import Path

import pytest

from evalspec.base.errors import InvalidInput
from evalspec.curation.gold.authoring import revise_edited
from evalspec.curation.gold.files import parse
from evalspec.curation.gold.gold_set import open_set, read_entry
from evalspec.curation.gold.linting import lint
from evalspec.curation.gold.protocol import add_triple, retire, review, revise_triple
from evalspec.curation.gold.triple_files import delete_triple
from evalspec.inputs.manifest.yaml_source import parse_yaml
from gold_sets import accept, make_set, make_triple


@pytest.fixture
def root(project):
    return make_set(project.folder / "gold" / "help")


@pytest.fixture
def git(project):
    def git(*arguments, check=True):
        identity = ("-c", "user.name=ada", "-c", "user.email=ada@example.com", "-c", "init.defaultBranch=main")
        command = ["git", *identity, *arguments]
        return subprocess.run(command, cwd=project.folder, check=check, capture_output=True, text=True)

    git("init", "-q")
    return git


def commit(git, message):
    git("add", "-A")
    git("commit", "-qm", message)


def test_reviews_on_two_branches_merge_without_conflict(root, git):
    add_triple(root, "refund", make_triple(), "ada")
    commit(git, "Add")
    for branch, person in (("b", "ben"), ("c", "cleo")):
        git("checkout", "-qb", branch, "main")
        review(root, "refund", person)
        commit(git, f"Review of {person}")
    git("checkout", "-q", "main")
    git("merge", "-q", "b")
    git("merge", "-q", "--no-edit", "c")
    assert read_entry(root, "refund").state == "accepted"
    assert lint(root).problems == []


def test_two_edits_of_one_content_conflict_and_lint_explains_it(root, git):
    add_triple(root, "refund", make_triple(), "ada")
    commit(git, "Add")
    for branch, person, answer in (("b", "ben", "15 days"), ("c", "cleo", "16 days")):
        git("checkout", "-qb", branch, "main")
        revise_triple(root, "refund", make_triple(answer=answer), person)
        commit(git, f"Edit of {person}")
    assert git("merge", "b", check=False).returncode == 1
    problem = lint(root).problems[0].render()
    assert problem.startswith("gold/help/triples/refund.yaml:")
    assert "git left a conflict here, because two branches edited this file" in problem
    assert "keep one side, or merge both and record that: evalspec gold revise ID" in problem
    git("checkout", "--ours", "gold/help/triples/refund.yaml")
    kept = read_entry(root, "refund")
    assert (kept.reference, kept.state, lint(root).problems) == ("refund@2", "pending", []), (
        "one side needs no revision"
    )
    (root / "triples" / "refund.yaml").write_text(_edited(root, git, "14 days, or 16"))
    (found,) = lint(root).problems
    assert "ben and cleo both wrote revision 2, and the content is neither's" in found.render()
    assert "evalspec gold revise refund" in found.render()
    settled = revise_edited(root, "refund", "ada")
    assert (settled.review_status.revision, settled.state, lint(root).problems) == (3, "pending", [])


def _edited(root, git, answer):
    return git("show", "main:gold/help/triples/refund.yaml").stdout.replace("14 days", answer)


def test_a_content_edited_by_hand_is_pending_until_it_is_recorded(root, project):
    accept(root, "refund")
    path = root / "triples" / "refund.yaml"
    path.write_text(path.read_text().replace("14 days", "15 days"))
    assert read_entry(root, "refund").state == "pending"
    with pytest.raises(InvalidInput, match="edited by hand"):
        review(root, "refund", "dan")
    told = project("gold", "lint")
    assert told.code == 2
    assert "the content was edited after revision 1, so nobody has reviewed it" in told.err
    assert project("gold", "revise", "refund", "--as", "ada").code == 0
    assert project("gold", "lint").code == 0


def test_metadata_that_nobody_vouches_for_may_be_corrected(root):
    accept(root, "refund")
    path = root / "triples" / "refund.yaml"
    path.write_text(path.read_text().replace("billing", "payments"))
    assert read_entry(root, "refund").state == "accepted"
    path.write_text(path.read_text().replace("source: public", "source: synthetic"))
    assert read_entry(root, "refund").state == "pending"


def test_a_clock_that_was_set_back_changes_nothing(root):
    add_triple(root, "refund", make_triple(), "ada", at="2030-01-01T00:00:00Z")
    review(root, "refund", "ben", at="1999-01-01T00:00:00Z")
    revise_triple(root, "refund", make_triple(answer="15 days"), "ada", at="1990-01-01T00:00:00Z")
    entry = read_entry(root, "refund")
    assert (entry.review_status.revision, entry.state) == (2, "pending")
    assert [one.event.revision for one in entry.events] == [1, 1, 2]


ADDED = "events/refund/1-add-ada"


def damage_event(root, start, change):
    (path,) = (root / "events" / "refund").glob(f"{start}*")
    path.write_text(change(path.read_text()))


def write(name, content):
    def change(root):
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content)

    return change


def append(path, text):
    path.write_text(path.read_text() + text)


def link(name, target):
    return lambda root: (root / name).symlink_to(target)


CONTENT = "question: q\nexpected_block: {block_id: b, version: v1}\nmetadata: {source: public}\n"


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (write("triples/x.yaml", "question: [a\n"), "gold/help/triples/x.yaml:2: not valid YAML"),
        (write("triples/x.yaml", "question: q\nquestion: r\n"), "gold/help/triples/x.yaml:2: question: duplicate key"),
        (write("triples/x.yaml", "- question: q\n"), "x.yaml:1: [0].expected_block: this key is required"),
        (
            write("triples/x.yaml", CONTENT.replace("public", "rfp")),
            "x.yaml:3: metadata.source: 'rfp' is not",
        ),
        (write("triples/x.yaml", CONTENT + "id: y\n"), "x.yaml:4: id: the id is 'y', but the file is x.yaml"),
        (write("triples/x.yaml", f"{CONTENT}id: refund\n---\n{CONTENT}id: y\n"), "is also in gold/help/triples/refund"),
        (write("triples/REFUND.yaml", CONTENT), "the id 'refund' differs from 'REFUND' only in case"),
        (write("triples/x.yaml", "\xe9"), "x.yaml:1: '\xe9' is not accepted here"),
        (write("triples/x.yaml", CONTENT), "x.yaml: the triple has no event that adds it"),
        (write("triples/x.yaml", ""), "x.yaml: the file is empty"),
        (link("triples/x.yaml", "/etc/passwd"), "triples/x.yaml: a symbolic link cannot be part of a gold set"),
        (link("events/x", "/etc"), "events/x: a symbolic link cannot be part of a gold set"),
        (write("events/x/1-add-ada-0.yaml", "kind: add\n"), "1-add-ada-0.yaml:1: revision: this key is required"),
        (lambda root: (root / "triples" / "refund.yaml").unlink(), "events/refund: there are events, but no triple"),
        (
            lambda root: damage_event(root, "1-confirm-ben", lambda text: text.replace("revision: 1", "revision: 7")),
            "the event does not count: there is no revision 7",
        ),
        (
            lambda root: damage_event(root, "1-confirm-ben", lambda text: text.replace("hash: ", "hash: 0")[:-1]),
            "content_hash",
        ),
        (
            lambda root: damage_event(root, "1-confirm-ben", lambda text: text.replace("by: ben", "by: dan")),
            "the event was edited after it was written",
        ),
        (
            lambda root: damage_event(root, "1-confirm-ben", lambda text: text.replace("by: ben", "by: ada")),
            "the event does not count: nobody reviews their own triple",
        ),
        (
            lambda root: append(root / "triples" / "refund.yaml", "  resolution: consensus\n"),
            "metadata.resolution: `resolution` is computed from events, and only exports write it",
        ),
        (write("set.yaml", "name: x\n"), "set.yaml:1: people: this key is required"),
        (write("set.yaml", "name: x\npeople: {a/b: }\n"), "set.yaml:2: people.a/b"),
    ],
)
def test_damage_is_one_clear_line(root, project, change, said):
    accept(root, "refund")
    change(root)
    told = project("gold", "lint")
    assert (told.code, told.out) == (2, "")
    assert said in told.err
    assert "Traceback" not in told.err


@pytest.mark.skipif(os.geteuid() == 0, reason="root reads everything")
def test_a_file_that_cannot_be_read_is_named(root):
    accept(root, "refund")
    (root / "triples" / "refund.yaml").chmod(0)
    assert "cannot be read: Permission denied" in lint(root).problems[0].render()


def test_what_is_not_read_is_named(root, project):
    accept(root, "refund")
    (root / "triples" / "d.yaml").mkdir()
    unread = ["triples/d.yaml"]
    for name in ("triples/sub/q.yaml", "triples/r.YAML", "triples/.h.yaml", "triples/j.json", "slices/s.txt",
                 "events/refund/x.json", "events/x.yaml"):  # fmt: skip
        write(name, CONTENT)(root)
        unread.append("triples/sub" if "sub" in name else name)
    for name in ("triples/.gitkeep", "events/.gitkeep"):
        write(name, "")(root)
    assert sorted(one.file for one in lint(root).warnings if "this is not read" in one.message) == [
        f"gold/help/{name}" for name in sorted(unread)
    ]
    told = project("gold", "lint")
    assert (told.code, "gold/help/triples/r.YAML: this is not read: only files" in told.err) == (0, True)


@pytest.mark.parametrize("part", ["set.yaml", "triples", "events", "blocks", "slices", "permissions", "held-out"])
def test_a_linked_part_of_a_set_is_refused_by_every_command(root, project, part):
    accept(root, "refund")
    for name in ("blocks", "slices", "permissions", "held-out"):
        (root / name).mkdir()
    elsewhere = project.folder / "elsewhere" / part
    elsewhere.parent.mkdir()
    (root / part).rename(elsewhere)
    (root / part).symlink_to(elsewhere)
    for command in ("lint", "list", "next --as ben", "review refund overstated --as dan"):
        told = project("gold", *command.split())
        assert (told.code, f"gold/help/{part}: a symbolic link cannot be part of a gold set" in told.err) == (2, True)
    if part == "triples":
        told = project("convert", "gold/help/triples", "out.jsonl", "--to", "jsonl")
        assert (told.code, "this is part of the gold set gold/help" in told.err) == (2, True)


def test_copies_of_triples_are_found(root, project):
    accept(root, "refund")
    for folder in ("events/refund", "triples/refund.yaml"):
        copy = shutil.copytree if folder.startswith("events") else shutil.copy
        copy(root / folder, root / folder.replace("refund", "zz"))
    told = project("gold", "lint")
    assert told.code == 2
    assert (
        "gold/help/triples/zz.yaml: its reviews are also those of refund, so one of the triples is a copy" in told.err
    )
    shutil.rmtree(root / "events" / "zz")
    revise_edited(root, "zz", "ada")
    told = project("gold", "lint")
    assert (told.code, "zz.yaml: question, blocks and answer are those of 'refund'" in told.err) == (0, True)
    retire(root, "zz", "ada")
    assert lint(root).warnings == []


def test_names_in_any_script(root):
    accept(root, "räksmörgås-東京", make_triple("Vad kostar det? 東京"))
    assert open_set(root).find("räksmörgås-東京").triple.question == "Vad kostar det? 東京"
    assert lint(root).problems == []
    with pytest.raises(InvalidInput, match="NFC"):
        add_triple(root, "ra\u0308k", make_triple(), "ada")


def test_a_set_without_events_goes_by_its_metadata(root, project):
    (root / "events").rmdir()
    reviewed = "added_by: ada, reviewed_by: [{}], resolution: {}"
    cases = {
        "good": ("ben, cleo", "consensus"),
        "own": ("ben, ada", "consensus"),
        "waiting": ("ben, cleo", "pending-review"),
    }
    for name, case in cases.items():
        content = f"question: {name}\nexpected_answer: a\nexpected_block: {{block_id: b}}\n"
        path = root / "triples" / f"{name}.yaml"
        path.write_text(f"{content}metadata: {{{reviewed.format(*case)}}}\n")
    assert {entry.id: entry.state for entry in open_set(root).entries.values()} == {
        "good": "accepted",
        "own": "pending",
        "waiting": "pending",
    }
    project.evaluation = {"datasets": [{"name": "gold", "path": "$file:gold/help", "metrics": ["string_match"]}]}
    told = project.validate("--no-judge")
    assert told.code == 0
    assert "gold/help: 2 triples are pending, so not evaluated: own, waiting" in told.err


def test_only_accepted_triples_are_evaluated(root, project, agent):
    accept(root, "refund")
    add_triple(root, "new", make_triple("Who?"), "ada")
    review(root, "new", "ben", "wrong_block")
    project.api = {"url": agent.url}
    project.evaluation = {"datasets": [{"name": "gold", "path": "$file:gold/help", "metrics": ["string_match"]}]}
    told = project.evaluate("--json")
    (dataset,) = told.document["datasets"]
    assert [sample["id"] for sample in dataset["samples"]] == ["refund"]
    assert "1 triple is pending, so not evaluated: new" in told.err
    review(root, "new", "cleo", "wrong_block")
    told = project.evaluate()
    assert "so not evaluated" not in told.err, "what people dropped needs nobody's attention"
    assert "gold set: 1 of 2 triples accepted" in told.out


@pytest.mark.parametrize("inside", ["triples", "triples/refund.yaml", "slices/../triples", "linked", "linked.yaml"])
def test_a_part_of_a_set_is_no_dataset(root, project, inside):
    """Its states, its permissions and its held-out share would not count."""
    accept(root, "refund")
    (root / "slices").mkdir()
    (project.folder / "linked").symlink_to(root / "triples")
    (project.folder / "linked.yaml").symlink_to(root / "triples" / "refund.yaml")
    path = inside if inside.startswith("linked") else f"gold/help/{inside}"
    project.evaluation = {"datasets": [{"name": "gold", "path": f"$file:{path}", "metrics": ["string_match"]}]}
    project.write()
    (project.folder / "run.trec").write_text("refund Q0 refunds 1 1.0 r\n")
    for command in (
        ("validate", "agent.yaml"),
        ("convert", path, "out.jsonl", "--to", "jsonl"),
        ("score", path, "run.trec"),
        ("gold", "import", path, "--as", "ada"),
    ):
        told = project(*command)
        said = "this is part of the gold set gold/help, whose states and permissions would not count"
        assert told.code == 2, told.err
        assert f": {said}. name the whole set: gold/help" in told.out + told.err


MINIMAL = "question: '{0}?', id: {0}, expected_block: {{block_id: b, version: v1}}"


@pytest.mark.parametrize(
    "text",
    [
        "#\n{a}\n--- {b}\n---\n{c}\n",
        "# first\n--- # a comment\n{a}\n--- !!map\n{b}\n...\n--- {c}",
        "---\r\n{a}\r\n---\r\n{b}\r\n--- \r\n{c}\r\n",
        "%YAML 1.1\n---\n {a}\n...\n%YAML 1.1\n--- {b}\n---\n# only a comment\n--- {c}\n---\n",
    ],
)
def test_documents_begin_where_yaml_says(project, text):
    triples = {name: f"{{{MINIMAL.format(name)}, metadata: {{note: '😀\n\n  --- x'}}}}" for name in "abc"}
    Path("plain.yaml").write_text(text.format(**triples))
    told = project("convert", "plain.yaml", "out.jsonl", "--to", "jsonl", "--lossy")
    assert told.code == 0, told.err
    assert [json.loads(line)["id"] for line in Path("out.jsonl").read_text().splitlines()] == ["a", "b", "c"]


def test_the_line_of_a_problem_in_a_later_document(root, project):
    triple = f"{{{MINIMAL.format('a')}}}"
    write("triples/m.yaml", f"{triple}\n--- # b\n{triple}\n--- |\n text\n")(root)
    assert "m.yaml:4: " in project("gold", "lint").err
    write("triples/m.yaml", f"{triple}\n---\n{triple}\n---\nid: c\n  d: [\n---\n{triple}\n")(root)
    assert "m.yaml:6: not valid YAML" in project("gold", "lint").err


def test_writing_one_triple_of_a_file_keeps_the_others(root):
    shared = root / "triples" / "shared.yaml"
    other = f"--- {{{MINIMAL.format('b')}}} # kept\n"
    shared.write_text(f"{{{MINIMAL.format('a')}}}\n{other}")
    (root / "events").rmdir()
    (root / "events").mkdir()
    revise_edited(root, "a", "ada")
    revise_triple(root, "a", make_triple("New?"), "ada")
    assert shared.read_text().endswith(other)
    shared.write_text(f"{shared.read_text()}--- {{id: c\n")
    before = shared.read_text()
    with pytest.raises(InvalidInput, match="not valid YAML"):
        revise_triple(root, "a", make_triple("Newer?"), "ada")
    assert shared.read_text() == before


def test_a_triple_is_found_whatever_its_file_is_called(root):
    write("triples/bundle.yaml", f"- {{{MINIMAL.format('x')}}}\n- {{{MINIMAL.format('y')}}}\n")(root)
    write("triples/y.yaml", f"- {{{MINIMAL.format('p')}}}\n- {{{MINIMAL.format('q')}}}\n")(root)
    assert revise_edited(root, "y", "ada").path.name == "bundle.yaml"
    delete_triple(root / "triples" / "bundle.yaml", "x")
    assert {name: entry.path.name for name, entry in open_set(root).entries.items()} == {
        "p": "y.yaml",
        "q": "y.yaml",
        "y": "bundle.yaml",
    }
    (root / "events" / "y").rename(root / "events" / "gone")
    with pytest.raises(InvalidInput, match="the id 'y' is taken"):
        add_triple(root, "y", make_triple(), "ada")


def test_a_content_that_is_only_recorded_keeps_its_comments(root):
    accept(root, "refund")
    path = root / "triples" / "refund.yaml"
    path.write_text("# why\n" + path.read_text().replace("14 days", "15 days # checked"))
    edited = path.read_text()
    assert revise_edited(root, "refund", "ada").reference == "refund@2"
    assert path.read_text() == edited


def test_what_is_too_large_to_be_read_is_not_written(root, project):
    before = sorted(root.rglob("*"))
    with pytest.raises(InvalidInput, match="bytes; at most 8,388,608 are accepted"):
        add_triple(root, "big", make_triple("q" * 8_400_000), "ada")
    assert [path for path in sorted(root.rglob("*")) if path not in before and path.suffix == ".yaml"] == []
    assert lint(root).problems == []


@pytest.mark.parametrize(
    "text",
    [
        "a: 1\nb: [x, {c: 'd'}]\n",
        "day: 2025-06-04\nat: 2026-11-22T10:00:00Z\n",
        "t: |\n  several\n  lines\n",
        "n: 010\nf: 1e3\nyes: no\nnull: ~\n",
        "u: \"\\u2028 \\x85\"\n'1': 2\n",
    ],
)
def test_the_quick_reader_reads_what_the_careful_one_reads(text):
    assert parse(text, "x").data == parse_yaml(text, "x").data


@pytest.mark.parametrize("text", ["[" * 50_000, "- " * 50_000, "? " * 50_000, "a: &x [*x]\n", "a: !!python/name:os\n"])
def test_hostile_yaml_is_refused(text):
    with pytest.raises(InvalidInput):
        parse(text, "x")
