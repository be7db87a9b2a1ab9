"""`evalspec label RUN` on a real pseudo-terminal: what a person sees, presses, and finds in the files."""

import json
import re

import pytest

from evalspec import labels
from evalspec.model import Direction
from gold.terminal import Terminal, measure
from hostile_texts import HOSTILE, steering

SGR = re.compile(r"\x1b\[[0-9;]*m")
KEYS = "quit"


@pytest.fixture
def terminal(labelled):
    """Replies that differ from the expected answer; ben has labelled the first."""
    project = labelled.project
    project.evaluation["datasets"] = []
    fields = {"expected": "We pay within 14 days.", "metadata": {"level": "hard"}}
    project.dataset("terms", [{"id": f"t{n}", "input": f"Who pays {n}?", **fields} for n in range(3)],
                    metrics=["string_match"])  # fmt: skip
    labelled.replies = {"t0": "We pay within 30 days.", "t1": "We pay within 14 days.", "t2": "Nobody knows."}
    labelled.run()
    labels.label("latest", "t0", "good", by="ben", note="SECRET of ben")
    opened = []

    def start(*more, columns=80, lines=40, **environment):
        arguments = ("label", "latest", "--as", "ada", *more)
        opened.append(Terminal(project.folder, *arguments, columns=columns, lines=lines, **environment))
        return opened[-1]

    yield start
    for one in opened:
        one.__exit__()


def plain(text):
    return SGR.sub("", text)


def said():
    return [
        (one.sample, str(one.verdict), one.value, one.note) for one in labels.list_labels() if one.labeller == "ada"
    ]


def test_a_session_from_the_first_key_to_the_last(terminal):
    session = terminal(NO_COLOR="1")
    shown = session.expect(KEYS)
    assert "terms: t0  1 of 3" in shown and "Who pays 0?" in shown and "A passage." in shown
    assert "We pay within *30* days." in shown and "We pay within *14* days." in shown
    session.act("n", "A note for your verdict")
    session.act("Not 30\x7f\x7f14.\n", "noted; now decide")
    session.act("b", "terms: t1  2 of 3")
    assert said() == [("t0", "bad", None, "Not 14.")]
    session.expect(KEYS)
    session.act("x", "unknown key; ? shows help")
    session.act("?", "A reply is good if", KEYS)
    session.act("g", "terms: t2  3 of 3", KEYS)
    session.act("u", "took back the label on t1")
    session.expect("terms: t1  2 of 3")
    session.expect(KEYS)
    assert said() == [("t0", "bad", None, "Not 14.")]
    session.act("u", "there is no label of this session to take back")
    session.act("s", "terms: t2  2 of 3", KEYS)
    session.act("b", "[s] back to 1 skipped, [u] undo, [q] quit")
    session.act("s", "terms: t1  3 of 3", KEYS)
    code, rest = session.quit()
    assert code == 0
    assert "2 bad" in rest and re.search(r"1 left; to resume: evalspec label \S+ --as ada", rest)
    assert "SECRET" not in session.output and "ben" not in session.output, "labels are blind"
    assert session.current_mode() == session.mode

    again = terminal()
    assert "terms: t1  3 of 3" in plain(again.expect(KEYS)), "it continues where the first one ended"
    again.act("g", "That was the last one.")
    assert again.quit()[0] == 0
    code, rest = terminal().end()
    assert (code, "nothing to label, 3 labelled already" in rest) == (0, True)


def test_scores_below_the_threshold_with_values(terminal):
    session = terminal("--metric", "string_match", "--below-threshold", "--where", "level=hard", NO_COLOR="1")
    shown = session.expect(KEYS)
    assert "terms: t0  1 of 2" in shown
    assert "Score: string_match\n  0\n" in shown
    session.act("d", "The score that you would have given")
    session.act("x\n", "'x' is not a number; nothing was recorded", KEYS)
    session.act("d", "The score that you would have given")
    session.act("\x04", "nothing was recorded", KEYS)
    session.act("d", "The score that you would have given")
    session.act("1\n", "terms: t2  2 of 2", KEYS)
    session.act("a", "That was the last one.")
    assert session.quit()[0] == 0
    assert said() == [("t0", "disagree", 1.0, None), ("t2", "agree", None, None)]


def test_a_sample_of_the_replies_is_nested(terminal):
    found = []
    for size in ("1", "2"):
        session = terminal("--sample-size", size, "--seed", "3", NO_COLOR="1")
        found.append(re.search(r"terms: (t\d)  1 of (\d)", session.expect(KEYS)).groups())
        session.act("q", f"{size} left; to resume: ")
        assert "--sample-size" in session.end()[1] + session.output
    assert [count for _, count in found] == ["1", "2"]


def test_interrupted_it_keeps_every_label(terminal):
    session = terminal(NO_COLOR="1")
    session.expect(KEYS)
    session.act("g", "terms: t1", KEYS)
    session.press("\x03")
    code, rest = session.end()
    assert (code, "interrupted; every label is kept" in rest) == (130, True)
    assert said() == [("t0", "good", None, None)]


@pytest.mark.parametrize("columns", [80, 40])
def test_hostile_texts_fit_and_steer_nothing(terminal, labelled, columns):
    project = labelled.project
    project.evaluation["datasets"] = []
    text = " ".join(one for one in HOSTILE.values() if len(one) < 100).encode("utf-8", "replace").decode()
    project.dataset("terms", [{"id": "t0", "input": text, "expected": text}], metrics=["string_match"])
    labelled.replies = {"t0": text + " more words" * 40}
    labelled.run()
    session = terminal(columns=columns, NO_COLOR="1")
    shown = session.expect(KEYS)
    assert not steering(plain(shown))
    assert max(map(measure, shown.splitlines())) <= columns
    assert session.quit()[0] == 0


def test_reason_and_evidence_of_a_judge(labelled):
    """Laid out without a terminal, as the page of a judge's score would be."""
    from evalspec.cli.label_screen import KEYS_OF_SCORES, describe_label_case
    from evalspec.cli.screen import Screen
    from evalspec.curation.labels.binding import Case
    from evalspec.model import AgentReply, Exchange, Message, Sample, Score
    from evalspec.verdict.outline import MetricOutline

    turns = (Message("user", "Hi"), Message("assistant", "Yes?"), Message("user", "Who pays?"))
    exchange = Exchange(Sample("s", turns, ("We pay.", "Us")), AgentReply("You do.", ("c" * 200,), ("doc-7",)))
    evidence = {"statements": [{"statement": "You pay.", "verdict": 0, "reason": "The text says: we."}]}
    score = Score.scored(0.25, "1 of 1 statement is not supported", evidence, (0.0, 0.5))
    outline = MetricOutline("faithfulness", "mean", Direction.HIGHER, (0, 1), judged=True)
    screen = Screen(80, 40, color=False, unicode=True)
    case = Case("r", "d", 2, exchange, {"faithfulness": score}, outline, {"judge": "m-1 #abc"})
    shown = describe_label_case(case, screen).render("1 of 1", KEYS_OF_SCORES, "w", screen)
    for part in ("d: s attempt 2", "assistant: Yes?", "Context  1  doc-7", "Or", "Score: faithfulness  by m-1",
                 "0.25, the mean of 0, 0.5", "1 of 1 statement is not supported",
                 "1. statement: You pay.; verdict: 0; reason: The text says: we."):  # fmt: skip
        assert part in shown, part
    assert json.dumps(max(map(measure, shown.splitlines()))) == "80"
