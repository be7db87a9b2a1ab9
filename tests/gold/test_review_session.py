"""`evalspec gold review` on a real pseudo-terminal: what a person sees, presses, and finds in the files."""

import hashlib
import json
import re
import subprocess
import time

import pytest
import yaml

from evalspec.base.errors import InvalidInput
from evalspec.curation.gold.authoring import create_set, read_triple
from evalspec.curation.gold.blocks import read_texts
from evalspec.curation.gold.gold_set import read_set
from evalspec.curation.gold.passages import find_shared, read_block_text
from evalspec.curation.gold.protocol import add_triple, assign, resolve, review, revise_triple
from evalspec.curation.gold.review_session import ReviewSession
from evalspec.curation.gold.schema import Block, Person
from gold.terminal import Terminal, measure
from hostile_texts import HOSTILE, steering

SGR = re.compile(r"\x1b\[[0-9;]*m")
KEYS = "[q] quit"
REFUNDS = "Refunds are paid within 14 days. They use AES-256-GCM."


@pytest.fixture
def folder(tmp_path):
    """A set of three triples by ada; cleo has flagged the first."""
    root = tmp_path / "gold" / "rfp"
    create_set(root, "rfp", {name: Person() for name in ("ada", "ben", "cleo", "dora")})
    for name in ("a", "b", "c"):
        triple = read_triple(
            question=f"Question {name}?",
            blocks=["refunds"],
            answer="A refund takes 14 days.",
            claims=["It takes days."],
        )
        add_triple(root, name, triple, "ada")
    review(root, "a", "cleo", "overstated", category="numeric", note="SECRET of cleo")
    (tmp_path / "corpus.jsonl").write_text(json.dumps({"_id": "refunds", "title": "Refunds", "text": REFUNDS}) + "\n")
    return tmp_path


@pytest.fixture
def root(folder):
    return folder / "gold" / "rfp"


@pytest.fixture
def open_terminal(folder):
    opened = []

    def start(*more, person="ben", columns=80, lines=40, **environment):
        arguments = ("gold", "review", "--as", person, *more)
        opened.append(Terminal(folder, *arguments, columns=columns, lines=lines, **environment))
        return opened[-1]

    yield start
    for terminal in opened:
        terminal.__exit__()


def events_of(root, name, person="ben"):
    return [yaml.safe_load(path.read_text()) for path in sorted((root / "events" / name).glob(f"*-{person}-*"))]


def plain(text):
    return SGR.sub("", text)


def test_a_session_from_the_first_key_to_the_last(open_terminal, root):
    terminal = open_terminal("--corpus", "corpus.jsonl")
    shown = plain(terminal.expect(KEYS))
    assert "a@1  1 of 3" in shown and "Question a?" in shown and "A refund takes 14 days." in shown
    assert "Refunds are paid within 14 days. They use AES-256-GCM." in shown
    shown = plain(terminal.act("f", "go back"))
    assert "3 not_entailed" in shown
    shown = terminal.act("4", "go back")
    assert "overstated" in shown and "1 numeric" in shown
    terminal.act("1", "A note for the author")
    terminal.act("The block says\x7fs GCM. ü\n", "b@1  2 of 3")
    assert events_of(root, "a")[0] | {"at": 0, "content_hash": 0} == {
        "kind": "flag", "revision": 1, "by": "ben", "verdict": "overstated", "category": "numeric",
        "note": "The block says GCM. ü", "at": 0, "content_hash": 0,
    }  # fmt: skip
    terminal.expect(KEYS)
    assert "SECRET" not in terminal.output and "cleo" not in terminal.output, "reviews are blind"
    assert "drop" not in terminal.output and "disputed" not in terminal.output

    told = plain(terminal.act("c", "c@1  3 of 3"))
    assert "a@1 is dropped (two flags)" in told, "the first review cannot be taken back now"
    assert "cleo flagged it as overstated (numeric): SECRET of cleo" in told
    terminal.expect(KEYS)
    assert [one["kind"] for one in events_of(root, "b")] == ["confirm"]

    terminal.act("u", "took back the review of b@1")
    assert events_of(root, "b") == []
    terminal.expect("b@1  2 of 3")
    terminal.expect(KEYS)
    terminal.act("u", "there is no review of this session to take back")
    terminal.act("s", "c@1  2 of 3", KEYS)
    terminal.act("c", "[s] back to 1 skipped, [u] undo, [q] quit")
    terminal.act("s", "b@1  3 of 3", KEYS)
    code, rest = terminal.quit()
    assert code == 0
    assert "c@1 is pending: 1 more confirmation" in rest and "1 confirmed, 1 flagged, 0 skipped" in rest
    assert "1 left; to resume: evalspec gold review --set gold/rfp --as ben --corpus corpus.jsonl" in rest
    assert terminal.current_mode() == terminal.mode


def test_a_disputed_triple_says_who_should_talk(open_terminal):
    terminal = open_terminal()
    terminal.expect(KEYS)
    terminal.act("c", "b@1", KEYS)
    _, rest = terminal.quit()
    assert "a@1 is disputed: to be settled by ada and cleo" in rest
    assert "cleo flagged it as overstated (numeric): SECRET of cleo" in rest


def test_the_next_session_continues_where_the_last_one_ended(open_terminal, root):
    first = open_terminal()
    first.expect(KEYS)
    first.act("c", "b@1  2 of 3", KEYS)
    assert first.quit()[0] == 0
    assign(root, ["c"], "ben", "ada")
    second = open_terminal()
    assert "c@1  2 of 3" in plain(second.expect(KEYS)), "assigned triples come first"


def test_a_session_begins_at_a_named_triple(open_terminal):
    terminal = open_terminal("c")
    terminal.expect("c@1  1 of 3")
    terminal.expect(KEYS)
    terminal.act("s", "a@1  1 of 3")
    refused = open_terminal("a", person="ada")
    code, said = refused.end()
    assert (code, "ada cannot review 'a': nobody reviews their own triple" in said) == (2, True)


@pytest.mark.parametrize("columns", [80, 60, 33])
def test_every_line_fits_also_wide_characters_and_after_a_change_of_size(open_terminal, root, folder, columns):
    wide = "データは保存時に暗号化されます。" * 9 + " 👍🏽 e\u0301 " + "Wort" * 40 + " the end"
    triple = read_triple(question="暗号化は？ " * 20, blocks=["kanji"], answer=wide, metadata=["domain=" + "漢" * 50])
    add_triple(root, "0", triple, "ada")
    (folder / "corpus.jsonl").write_text(json.dumps({"_id": "kanji", "text": wide}) + "\n")
    terminal = open_terminal("0", "--corpus", "corpus.jsonl", columns=columns, lines=200)
    shown = plain(terminal.expect(KEYS))
    assert all(measure(line) <= columns for line in shown.split("\n"))
    assert shown.count("the end") == 2
    terminal.resize(columns - 10, 200)
    shown = plain(terminal.expect("quit"))
    assert "0@1" in shown and all(measure(line) <= columns - 10 for line in shown.split("\n"))
    terminal.act("?", "blind.")
    terminal.act("f", "What is wrong?")
    assert all(measure(line) <= columns for line in plain(terminal.output).split("\n"))


def test_a_long_block_shows_the_part_that_the_answer_is_about(open_terminal, folder):
    text = "\n".join(f"Line {number} of many." for number in range(200)).replace(
        "Line 120 of", "A refund takes 14 days,"
    )
    (folder / "corpus.jsonl").write_text(json.dumps({"_id": "refunds", "text": text}) + "\n")
    terminal = open_terminal("--corpus", "corpus.jsonl", lines=30)
    shown = plain(terminal.expect(KEYS))
    assert "A refund takes 14 days, many." in shown and "lines more; b shows all" in shown
    assert len(shown.split("\n")) <= 30
    whole = plain(terminal.act("b", KEYS))
    assert "Line 0 of many." in whole and "Line 199 of many." in whole and "b shows all" not in whole


@pytest.mark.parametrize("environment", [{"NO_COLOR": "1"}, {"TERM": "dumb"}, {}], ids=str)
def test_marks_need_no_colour_and_no_addressable_cursor(open_terminal, environment):
    terminal = open_terminal("--corpus", "corpus.jsonl", **environment)
    shown = terminal.expect(KEYS)
    terminal.act("c", KEYS)
    assert set(re.findall(r"\x1b.", SGR.sub("", terminal.output))) == set(), "nothing but styles"
    assert ("\x1b" in terminal.output) == (not environment)
    assert ("*Refunds* are paid within *14 days*." in shown) == bool(environment)
    assert ("\x1b[1;4m14 days\x1b[0m" in shown) == (not environment)


def test_texts_from_files_cannot_steer_the_terminal(open_terminal, root, folder):
    evil = "".join(text for name, text in HOSTILE.items() if name != "surrogates")
    triple = read_triple(question=evil, blocks=["evil"], answer=evil, claims=[evil], metadata=[f"domain={evil}"])
    add_triple(root, "evil", triple, "ada")
    (folder / "corpus.jsonl").write_text(json.dumps({"_id": "evil", "title": evil, "text": evil}) + "\n")
    terminal = open_terminal("evil", "--corpus", "corpus.jsonl", TERM="dumb")
    shown = terminal.expect(KEYS)
    assert steering(shown) == ""


def test_ctrl_c_loses_nothing_and_says_how_to_resume(open_terminal, root):
    terminal = open_terminal()
    terminal.expect(KEYS)
    terminal.act("c", KEYS)
    terminal.act("f", "go back")
    terminal.act("4", "go back")
    terminal.act("\r", "A note for the author")
    terminal.press("half a no\x03")
    code, rest = terminal.end()
    assert code == 130
    assert "to resume: evalspec gold review --set gold/rfp --as ben" in rest and "Traceback" not in rest
    assert [one["kind"] for one in events_of(root, "a")] == ["confirm"] and events_of(root, "b") == []
    assert terminal.current_mode() == terminal.mode


def test_a_closed_terminal_loses_nothing(open_terminal, root):
    terminal = open_terminal()
    terminal.expect(KEYS)
    terminal.act("c", KEYS)
    terminal.hang_up()
    assert terminal.wait() in (0, 130, -1)
    assert [one["kind"] for one in events_of(root, "a")] == ["confirm"]
    assert read_set(root).problems == []


def test_keys_for_a_triple_that_is_not_shown_yet_are_ignored(open_terminal, root):
    terminal = open_terminal()
    terminal.expect(KEYS)
    terminal.act("ccc", "b@1  2 of 3", KEYS)
    terminal.press("\x1b[C")
    terminal.act("x", "unknown key")
    assert terminal.quit()[0] == 0
    assert (len(events_of(root, "a")), events_of(root, "b")) == (1, [])


def test_keys_work_at_once_after_another_program_has_changed_the_mode(open_terminal):
    """As a shell does after Ctrl-Z."""
    terminal = open_terminal()
    terminal.expect(KEYS)
    terminal.set_mode(terminal.mode)
    deadline = time.monotonic() + 60
    while terminal.current_mode() == terminal.mode and time.monotonic() < deadline:
        time.sleep(0.05)
    terminal.act("c", "b@1  2 of 3")


@pytest.mark.parametrize("keys", ["f\x1b", "f4\x1b", "f4\r\x04"], ids=repr)
def test_a_flag_can_be_abandoned_at_every_step(open_terminal, root, keys):
    terminal = open_terminal()
    terminal.expect(KEYS)
    for key in keys:
        terminal.press(key)
        terminal.expect(
            {"f": "What is wrong?", "4": "What is it about?", "\r": "A note"}.get(key, "nothing was recorded")
        )
    terminal.expect("a@1  1 of 3")
    assert events_of(root, "a") == []


def test_content_that_changes_under_the_reader_is_shown_again(open_terminal, root):
    terminal = open_terminal("b")
    terminal.expect(KEYS)
    revise_triple(root, "b", read_triple(question="Another?", blocks=["refunds"], answer="No."), "ada")
    terminal.act("c", "'b' was changed after it was shown, so nothing was recorded")
    assert "Another?" in terminal.expect(KEYS)
    assert events_of(root, "b") == []
    terminal.act("c", "confirmed b@2")


def test_a_session_needs_a_terminal_and_nothing_else(folder, root, project, monkeypatch):
    monkeypatch.chdir(folder)
    outcome = project("gold", "review", "--as", "ben")
    assert outcome.code == 2 and "a review session needs a terminal" in outcome.err
    outcome = project("gold", "review", "a", "--as", "ben", "--json")
    assert outcome.code == 2 and "need ID and VERDICT" in outcome.document["errors"][0]["message"]
    outcome = project("gold", "review", "b", "confirm", "--as", "ben", "--json")
    assert outcome.code == 0 and outcome.document["triples"][0]["state"] == "pending"


def test_numbers_that_the_block_does_not_say_are_shown(open_terminal, folder):
    pytest.importorskip("evalspec.curation.gold.disputes")
    (folder / "corpus.jsonl").write_text(json.dumps({"_id": "refunds", "text": "Refunds take 10 days."}) + "\n")
    terminal = open_terminal("--corpus", "corpus.jsonl")
    assert "14 days" in plain(terminal.expect(KEYS)).partition("Numbers")[2]


def git(folder, *arguments):
    config = ("-c", "user.name=Ada", "-c", "user.email=ada@example.com")
    subprocess.run(["git", *config, *arguments], cwd=folder, check=True, capture_output=True)


@pytest.mark.parametrize("in_git", [False, True])
def test_undo_deletes_only_the_file_that_this_session_wrote(folder, root, in_git):
    if in_git:
        git(folder, "init", "-q")
        git(folder, "add", ".")
        git(folder, "commit", "-qm", "set")
    session = ReviewSession(root, "ben")
    before = sorted((root / "events").rglob("*.yaml"))
    session.record(session.open())
    assert session.undo().id == session.current == "a"
    assert sorted((root / "events").rglob("*.yaml")) == before
    with pytest.raises(InvalidInput, match="no review of this session"):
        session.undo()
    session.record(session.open())
    session.record(session.open(), "wrong_block")
    assert session.undo().id == "b"
    with pytest.raises(InvalidInput, match="no review of this session"):
        session.undo()


@pytest.mark.parametrize("how", ["staged", "committed", "uncached"])
def test_undo_leaves_what_git_has(folder, root, how):
    git(folder, "init", "-q")
    session = ReviewSession(root, "ben")
    session.record(session.open())
    git(folder, "add", ".")
    if how != "staged":
        git(folder, "commit", "-qm", "reviews")
    if how == "uncached":
        git(folder, "rm", "-rq", "--cached", "gold")
    with pytest.raises(InvalidInput, match="git has it already"):
        session.undo()
    assert len(events_of(root, "a")) == 1 and session.current == "b"


def test_undo_leaves_a_file_that_somebody_changed_or_relied_on(root):
    session = ReviewSession(root, "ben")
    session.record(session.open())
    path = session.last.path
    written = path.read_bytes()
    path.write_bytes(written + b"note: more\n")
    with pytest.raises(InvalidInput, match="edited after this session wrote it"):
        session.undo()
    path.write_bytes(written)
    revise_triple(root, "a", read_triple(question="Another?", blocks=["refunds"], answer="No."), "ada")
    with pytest.raises(InvalidInput, match="others have acted"):
        session.undo()
    assert path.read_bytes() == written

    session = ReviewSession(root, "ben", "b")
    session.record(session.open(), "overstated")
    resolve(root, "b", "ada", "upheld")
    with pytest.raises(InvalidInput, match="others have acted"):
        session.undo()
    session.last.path.unlink()
    with pytest.raises(InvalidInput, match="cannot be taken back"):
        session.undo()


def test_triples_that_were_reviewed_or_removed_meanwhile_are_left_out(root):
    session = ReviewSession(root, "ben")
    assert (session.position, session.total) == (1, 3)
    review(root, "a", "dora", "overstated")  # dropped by two flags
    assert session.open().id == "b"
    (root / "triples" / "b.yaml").unlink()
    with pytest.raises(InvalidInput):
        session.open()
    assert session.open().id == "c"


def test_a_set_without_events_is_not_given_its_first_one_by_a_review(folder, root):
    for path in sorted((root / "events").rglob("*"), reverse=True):
        path.unlink() if path.is_file() else path.rmdir()
    (root / "events").rmdir()
    with pytest.raises(InvalidInput, match="has no events"):
        ReviewSession(root, "ben")


def test_the_text_of_a_block_is_the_pinned_one_or_none(folder, root):
    text = f"Refunds\n{REFUNDS}"
    digits = hashlib.sha256(text.encode()).hexdigest()[:32]
    corpus = read_texts(folder / "corpus.jsonl")
    pinned, loose = Block(block_id="refunds", version=f"sha256:{digits}"), Block(block_id="refunds", version="2024")
    assert read_block_text(root, loose).text is None and "pass --corpus FILE" in read_block_text(root, loose).why
    assert read_block_text(root, loose, corpus).text == text
    assert read_block_text(root, pinned, corpus).text == text
    assert read_block_text(root, Block(block_id="x"), corpus).text is None
    assert "not the pinned one" in read_block_text(root, pinned, {"refunds": "other"}).why
    (root / "blocks").mkdir()
    (root / "blocks" / digits).write_text(text)
    assert read_block_text(root, pinned).text == text == read_block_text(root, pinned, {"refunds": "other"}).text
    (root / "blocks" / digits).write_text("tampered")
    assert read_block_text(root, pinned, corpus).text is None
    assert "is not the pinned text" in read_block_text(root, pinned, corpus).why


@pytest.mark.parametrize(
    ("text", "answer", "marked"),
    [
        ("Refunds are paid within 14 days.", "A refund takes 14 days.", ["Refunds", "14 days"]),
        ("The AES-256-GCM mode of 1,840 keys", "AES-256 for 1840 keys", ["AES-256", "1,840 keys"]),
        ("データは保存時に暗号化されます。", "保存時に暗号化", ["保存時に暗号化"]),
        ("and the of it", "and the of it", []),
        ("restore the rest", "at rest", ["rest"]),
    ],
)
def test_words_of_the_answer_are_found_in_other_forms(text, answer, marked):
    assert [text[start:end] for start, end in find_shared(text, [answer])] == marked
