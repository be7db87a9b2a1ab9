"""One label after the other: what is recorded, what is refused, who sees what."""

import json
import re
from typing import Any

import pytest

from evalspec import labels
from evalspec.base.errors import InvalidInput
from evalspec.model.labels import LabelVerdict
from evalspec.runs.store.run_store import RunStore
from labels.conftest import STORE

DISAGREE = ["--sample", "s2", "--verdict", "disagree", "--metric", "string_match"]


def test_a_label_says_what_was_judged(labelled):
    reply = labels.label("latest", "s0", "good", by="ada", note=" Well said. ")
    assert (reply.dataset, reply.sample, reply.attempt, reply.metric) == ("qa", "s0", 1, None)
    assert (reply.verdict, reply.note, reply.labeller) == (LabelVerdict.GOOD, "Well said.", "ada")
    assert reply.reply_digest and reply.sample_digest
    assert (reply.shown_value, reply.metric_key, reply.metric_identity) == (None, None, {})
    score = labels.label("latest", "s2", "disagree", by="ada", metric="string_match", value=1)
    assert (score.shown_value, score.value, score.implied_value) == (0.0, 1.0, 1.0)
    assert score.metric_key and score.metric_identity["version"]
    assert labels.list_labels() == [reply, score]


def test_a_later_label_replaces_the_earlier_one_and_history_stays(labelled):
    (first,) = labelled.say("s0", ada="good")
    (second,) = labelled.say("s0", ada="bad")
    assert labels.list_labels() == [second]
    assert labels.list_labels(history=True) == [first, second]
    (gone,) = labelled.say("s0", ada="withdrawn")
    assert labels.list_labels() == []
    assert labels.list_labels(history=True) == [first, second, gone]


def test_who_has_not_judged_sees_nothing_and_who_could_see_is_informed(labelled):
    (ada,) = labelled.say("s0", ada="good")
    assert labels.list_labels(viewer="ben") == []
    (ben,) = labelled.say("s0", ben="bad")
    assert (ada.is_informed, ben.is_informed) == (False, False)
    assert labels.list_labels(viewer="ben") == [ada, ben]
    (changed,) = labelled.say("s0", ben="good")
    assert changed.is_informed
    assert labels.list_labels(viewer="cleo") == []


def test_the_command(labelled):
    told = labelled.project("label", "latest", "--sample", "s0", "--verdict", "good", "--as", "ada", "--json")
    assert (told.code, told.document["label"]["verdict"]) == (0, "good")
    assert labelled.project("label", "latest", "--sample", "s0", "--verdict", "bad", "--as", "ben").code == 0
    listed = labelled.project("labels", "list", "--as", "cleo", "--json")
    assert (listed.document["labels"], listed.document["hidden"]) == ([], 2)
    listed = labelled.project("labels", "list", "--as", "ben")
    assert [line.split() for line in listed.out.splitlines()] == [
        ["qa:", "s0", "reply", "good", "ada"],
        ["qa:", "s0", "reply", "bad", "ben"],
    ]
    session = labelled.project("label", "latest", "--as", "ada")
    assert (session.code, "a labelling session needs a terminal" in session.err) == (2, True)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ([], "latest --as ada --sample ID --verdict good`, or bad"),
        (["--metric", "string_match"], "latest --as ada --metric string_match --sample ID --verdict agree`"),
        (["--metric", "string_match", "--new"], "latest --as ada --metric string_match --random N --json`"),
        (["--metric", "string_match", "--random", "2", "--seed", "3"],
         "latest --as ada --metric string_match --random 2 --seed 3 --sample ID --verdict rated "
         "--value SCORE`"),
    ],
)  # fmt: skip
def test_without_a_terminal_it_says_how_to_label(labelled, options, said):
    told = labelled.project("label", "latest", "--as", "ada", *options)
    assert (told.code, said in told.err) == (2, True), told.err


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--sample", "s9", "--verdict", "good"], "has no sample 's9'. known: s0, s1, s2, s3"),
        (["--sample", "s0", "--verdict", "agree"], "verdict: a reply cannot be 'agree'. write good or bad"),
        (["--sample", "s0", "--verdict", "good", "--metric", "string_match"], "a score cannot be 'good'"),
        (["--sample", "s0", "--verdict", "agree", "--metric", "string_mach"], "did you mean 'string_match'?"),
        (["--sample", "s0", "--verdict", "good", "--dataset", "qq"], "--dataset: run"),
        (["--sample", "s0", "--verdict", "good", "--attempt", "2"], "no attempt 2"),
        (["--sample", "s0", "--verdict", "good", "--value", "1"], "value: 'good' has no value"),
        ([*DISAGREE, "--value", "7"], "7 is outside 0 to 1"),
        ([*DISAGREE, "--value", "0"], "0 is the score already"),
        (["--sample", "s0", "--verdict", "withdrawn"], "ada has no label on 's0'"),
        (["--sample", "s0", "--verdict", "good", "--note", "a\x1b[31m"], "note: has a control character"),
        (["--sample", "s0"], "--verdict: is missing"),
        (["--verdict", "good"], "--verdict: needs --sample"),
        (["--sample", "s0", "--verdict", "good", "--failed"], "--failed: belongs to a session"),
        (["--sample", "s0", "--verdict", "good", "--as", " "], "--as: ' ' is not a name"),
    ],
)
def test_what_cannot_be_labelled_is_refused(labelled, arguments, said):
    told = labelled.project("label", "latest", "--as", "ada", *arguments)
    assert (told.code, told.out) == (2, "")
    assert said in told.err
    assert labels.list_labels(history=True) == []


def test_without_texts_nobody_can_judge(labelled):
    labelled.run("--no-content")
    with pytest.raises(InvalidInput, match="stores no texts"):
        labels.label("latest", "s0", "good", by="ada")


def test_a_failed_reply_and_a_missing_score_are_no_cases(labelled):
    labelled.replies.pop("s3")
    labelled.replies["s2"] = ""
    labelled.project.evaluation["ciGate"] = False
    labelled.project.evaluation["thresholds"] = {}
    path = labelled.project.folder / "replies.jsonl"
    path.write_text("".join(json.dumps({"id": n, "response": t}) + "\n" for n, t in labelled.replies.items()))
    labelled.project.evaluate("--responses", path.name)
    with pytest.raises(InvalidInput, match="'s3' has no reply: "):
        labels.label("latest", "s3", "bad", by="ada")


def test_labels_of_a_removed_run_stay(labelled):
    (made,) = labelled.say("s0", ada="good")
    told = labelled.project("runs", "rm", made.run)
    assert "; its labels stay in .evalspec/verdicts/" in told.err
    assert labels.list_labels(made.run) == [made]


@pytest.fixture
def two_limits(labelled):
    """All four replies miss one of two thresholds: s0 and s1 that of rouge, s2 and s3 that of string_match."""
    labelled.project.evaluation["datasets"] = []
    labelled.project.samples(4, "both", metrics=("string_match", "rouge"))
    labelled.project.evaluation["thresholds"] = {"string_match": 0.5, "rouge": {"max": 0.5}}
    labelled.run()
    return labelled


def session(**filters):
    return labels.LabelSession(labels.LabelledRun(RunStore(STORE), "latest"), "ada", labels.CaseFilter(**filters))


def test_filters(two_limits):
    assert session().total == session(failed=True).total == 4
    chosen = session(metric="string_match", beyond=True)
    assert (chosen.total, chosen.open().sample) == (2, "s2")
    chosen = session(metric="rouge", beyond=True)
    assert (chosen.total, chosen.open().sample) == (2, "s0")
    for filters, said in (
        ({"beyond": True}, "--below-threshold: needs a metric"),
        ({"metric": "rogue"}, "did you mean 'rouge'?"),
        ({"datasets": ["bath"]}, "did you mean 'both'?"),
    ):
        with pytest.raises(InvalidInput, match=re.escape(said)):
            session(**filters)
    two_limits.project.evaluation |= {"thresholds": {}, "ciGate": False}
    two_limits.run()
    with pytest.raises(InvalidInput, match=r"--failed: run .* has no thresholds"):
        session(failed=True)


def test_a_case_that_can_no_longer_be_read_is_left_out(labelled, monkeypatch):
    """Its text was erased during the session, say."""
    going = session()
    total, find = going.total, going._run.find_case

    def find_others(dataset, sample, *rest):
        if sample == "s0":
            raise InvalidInput("s0 was erased", "label another one")
        return find(dataset, sample, *rest)

    monkeypatch.setattr(going._run, "find_case", find_others)
    with pytest.raises(InvalidInput, match="s0 was erased"):
        going.open()
    assert going.open().sample != "s0"
    assert going.total == total - 1


def test_a_label_on_an_equal_reply_of_another_run_need_not_be_repeated(labelled):
    labelled.say("s0", ada="good")
    labelled.run()
    assert (session().position, session().remaining) == (2, 3)


def test_the_library_draws_and_labels_as_the_command_does(labelled):
    drawn = labels.list_drawn("latest", "string_match", 3, by="ada", seed=2)
    document = labelled.project(
        "label", "latest", "--as", "ada", "--metric", "string_match", "--random", "3", "--seed", "2", "--json"
    ).document["drawn"]
    assert [one.sample for one in drawn] == [one["sample"] for one in document]
    draw: dict[str, Any] = {"by": "ada", "metric": "string_match", "random": 3, "seed": 2}
    made = labels.label("latest", drawn[0].sample, "rated", value=1.0, **draw)
    assert (made.is_blind, made.draw.kind, made.draw.probability) == (True, "random", 0.75)
    assert labels.list_drawn("latest", "string_match", 3, by="ada", seed=2) == drawn[1:]
    (other,) = {f"s{n}" for n in range(4)} - {one.sample for one in drawn}
    with pytest.raises(InvalidInput, match=f"'{other}' is not in the draw"):
        labels.label("latest", other, "rated", value=1.0, **draw)
    with pytest.raises(InvalidInput, match="needs a metric"):
        labels.label("latest", other, "rated", by="ada", value=1.0, random=3)
