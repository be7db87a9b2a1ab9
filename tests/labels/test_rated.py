"""People's own scores: drawn at random, given without sight of the judge, by the judge's own questions."""

import json
import re
from collections import Counter
from pathlib import Path

import krippendorff
import pytest
from msgspec.structs import replace

from evalspec import labels
from evalspec.base.errors import InvalidInput
from evalspec.curation.labels.drawing import LabelDesign
from evalspec.curation.labels.drawn_session import DrawnSession
from evalspec.curation.labels.files import erase_labels
from evalspec.curation.labels.labelling import use_labels
from evalspec.curation.labels.opinions import collect_opinions, read_label_file
from evalspec.model.corrections import DrawKind
from evalspec.model.labels import Answer, LabelVerdict
from evalspec.runs.store.run_store import RunStore
from evalspec.verdict.stats.agreement import compute_interval_alpha
from gold.terminal import Terminal
from labels.conftest import STORE
from servers.scripted_judge import ScriptedJudge

RUBRIC = {"name": "tone", "rubric": "Is it kind?", "labels": {"kind": 1, "so-so": 0.4, "rude": 0}}
JUDGED = [
    "faithfulness",
    "hallucination",
    "context_precision",
    "claim_entailment",
    "toxicity",
    "answer_relevancy",
    RUBRIC,
]
PASSAGE = "Refunds are paid within 14 days."


@pytest.fixture
def judged(labelled):
    """Replies of two statements, of which the context has the first, scored by a judge. It fails on s3."""
    project = labelled.project
    with ScriptedJudge() as judge:
        project.evaluation["judge"] = {"model": "m", "baseUrl": judge.url, "apiKey": "k", "concurrency": 1}
        project.evaluation["embeddings"] = {
            "provider": "openai-compatible",
            "model": "e",
            "baseUrl": judge.url,
            "apiKey": "k",
        }
        project.evaluation["datasets"] = []
        rows = [
            {"id": f"s{n}", "input": "When are refunds paid?", "expected": "Within 14 days.", "context": [PASSAGE]}
            for n in range(4)
        ]
        project.dataset("terms", rows, metrics=JUDGED)
        project.evaluation |= {"thresholds": {"faithfulness": 0.5}, "ciGate": False}
        labelled.replies = {f"s{n}": f"Refunds are paid within 14 days. Customer {n} pays 7 euros." for n in range(4)}
        labelled.judge = judge
        labelled.first = run_judged(labelled)
        yield labelled


def run_judged(labelled):
    lines = [{"id": name, "response": text, "retrieved_contexts": [PASSAGE]} for name, text in labelled.replies.items()]
    Path("replies.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    outcome = labelled.project.evaluate("--responses", "replies.jsonl", "--json")
    assert outcome.code in (0, 1, 3), outcome.err
    return outcome.document["runId"]


@pytest.fixture
def many(labelled):
    """Sixty replies, the first twenty of which match; no judge."""
    labelled.project.evaluation["datasets"] = []
    labelled.project.samples(60, "many", metrics=("string_match",))
    labelled.replies = {f"s{n}": "Paris" if n < 20 else "Rome" for n in range(60)}
    labelled.run()
    return labelled


def opened(run="latest"):
    return labels.LabelledRun(RunStore(STORE), run)


def start(metric, by="ada", run="latest", **design):
    return DrawnSession(opened(run), by, LabelDesign(metric, **design))


def score(session, count, value=1.0):
    """Give scores to the next cases. `value`: a number, or a function of the sample's id."""
    for _ in range(count):
        case = session.open()
        if case is None:
            return
        session.record(case, "rated", value=value(case.sample) if callable(value) else value)


def people(metric, run="latest", given=None):
    here = opened(run)
    (found,) = collect_opinions(here, given or here.files.read_all(), [metric])
    return found


def test_a_draw_is_seeded_nested_and_on_record(many):
    score(start("string_match", size=10, seed=3), 10)
    made = labels.list_labels()
    assert {one.verdict for one in made} == {LabelVerdict.RATED}
    assert all(one.is_blind and one.shown_value is None for one in made)
    assert [one.draw.place for one in made] == list(range(1, 11))
    assert {(one.draw.kind, one.draw.seed, one.draw.probability) for one in made} == {(DrawKind.RANDOM, 3, 10 / 60)}
    assert [one.sample for one in made] != sorted(one.sample for one in made)
    larger = start("string_match", size=15, seed=3)
    assert (larger.position, larger.total) == (11, 15)
    score(larger, 5, 0.0)
    found = people("string_match")
    assert [one.draw.probability for one in found.scores] == [15 / 60] * 15, "that of the whole draw"
    assert sum(one.value for one in found.scores) == 10


def test_replies_that_the_judge_could_not_score_are_drawn(judged):
    judged.judge.mode = "refusal"
    run_judged(judged)
    session = start("faithfulness", size=50)
    assert session.total == 4
    case = session.open()
    assert case.score.value is None
    session.record(case, "rated", answers=[Answer(PASSAGE, 1.0), Answer("It is blue.", 0.0)])
    found = people("faithfulness")
    assert [(one.id, one.value, one.labellers) for one in found.scores] == [(case.sample, 0.5, 1)]
    session.undo()
    assert people("faithfulness").scores == ()


@pytest.mark.parametrize(
    "metric, answers, value",
    [
        ("faithfulness", [1, 0, 1, 1], 0.75),
        ("hallucination", [1, 0, 1, 1], 0.25),
        ("context_precision", [1], 1.0),
        ("claim_entailment", [0, 1], 0.5),
        ("toxicity", [0.5], 0.5),
        ("tone", [0.4], 0.4),
    ],
)
def test_answers_to_the_judges_questions_make_the_score(judged, metric, answers, value):
    session = start(metric, size=1)
    case = session.open()
    made = session.record(case, "rated", answers=[Answer(f"q{n}", float(one)) for n, one in enumerate(answers)])
    assert made.value == pytest.approx(value)
    assert people(metric).scores[0].value == pytest.approx(value)
    with pytest.raises(InvalidInput, match="an answer is not possible"):
        session.record(session.undo(), "rated", answers=[Answer("q", 7.0)])


def test_the_judges_own_verdicts_make_the_judges_score(judged):
    """One formula: what the judge answered, given as people's answers, is the judge's score."""
    for metric, key in (("faithfulness", "verdict"), ("hallucination", "verdict"), ("context_precision", "verdict")):
        case = opened().find_case(None, "s0", 1, metric)
        (items,) = case.score.evidence.values()
        answers = [Answer("q", float(item[key])) for item in items]
        made = labels.label("latest", "s0", "rated", by=metric, metric=metric, answers=answers)
        assert made.value == pytest.approx(case.score.value), metric


@pytest.mark.parametrize(
    "arguments, said",
    [
        (["--metric", "answer_relevancy"], "--metric: answer_relevancy has no score that a person could give"),
        (["--metric", "faithfulness"], "value: 'rated' needs a value"),
        (["--metric", "faithfulness", "--value", "7"], "--value: 7 is outside 0 to 1"),
        ([], "--metric: a reply as a whole has no score"),
    ],
)
def test_what_people_cannot_score_is_refused(judged, arguments, said):
    told = judged.project("label", "latest", "--sample", "s0", "--verdict", "rated", "--as", "ada", *arguments)
    assert (told.code, said in told.err) == (2, True), told.err


def test_one_label_without_a_session_is_blind_by_the_callers_word(judged):
    ask = [
        "label",
        "latest",
        "--sample",
        "s0",
        "--metric",
        "faithfulness",
        "--verdict",
        "rated",
        "--as",
        "ada",
        "--json",
    ]
    first = judged.project(*ask, "--value", "0.5", "--blind").document["label"]
    assert (first["isBlind"], first["shownValue"], first["draw"]["kind"]) == (True, None, "chosen")
    again = judged.project(*ask, "--value", "1", "--blind")
    assert (again.document["label"]["isBlind"], "not blind: after an earlier label" in again.err) == (False, True)
    refused = judged.project(*ask[:-2], "ben", "--verdict", "disagree")
    assert (refused.code, "'disagree' needs a value. give the score" in refused.err) == (2, True)
    assert people("faithfulness").left_out == {
        "chosen, not drawn at random": 1,
        "given with the score in sight": 1,
    }


@pytest.mark.parametrize(
    "options, said",
    [
        (["--random", "5"], "--random: needs a metric"),
        (["--random", "5", "--metric", "string_match", "--failed"], "--failed: leaves out a part of the replies"),
        (
            ["--new", "--until-decided", "--metric", "string_match"],
            "--until-decided: is another way to draw",
        ),
        (["--stratify", "judge"], "--stratify: needs --random"),
        (["--blind"], "--blind: needs --sample"),
        (["--random", "5", "--sample", "s0"], "--random: needs a metric"),
        (["--seed", "5", "--sample", "s0", "--verdict", "good"], "--seed: belongs to a session"),
        (["--new", "--metric", "string_match", "--sample", "s0"], "--new: belongs to a session"),
    ],
)
def test_options_of_draws(labelled, options, said):
    told = labelled.project("label", "latest", "--as", "ada", *options)
    assert (told.code, said in told.err) == (2, True), told.err


def test_labels_carry_over_to_equal_replies_whatever_the_judge_says(judged):
    session = start("faithfulness", size=50, seed=1)
    score(session, 3, 0.25)
    seen = session.open().sample
    labels.label("latest", seen, "agree", by="ada", metric="faithfulness")
    judged.project.evaluation["judge"]["model"] = "another"
    changed = labels.list_labels()[0].sample
    judged.replies[changed] += " It is blue."
    run_judged(judged)
    found = people("faithfulness")
    assert (len(found.scores), {one.run for one in found.scores}) == (2, {judged.first})
    assert found.left_out == {"the reply or the sample changed": 1, "given with the score in sight": 1}
    assert {id for id, _ in found.unchanged} == {f"s{n}" for n in range(4)} - {changed}, "also those without a label"
    assert people("tone") == people("tone").__class__(dataset="terms", metric="tone")
    new = start("faithfulness", kind=DrawKind.STRATIFIED, is_new=True)
    assert (new.open().sample, new.remaining) == (changed, 1)
    score(new, 9, 0.5)
    score(start("faithfulness", by="ben", kind=DrawKind.STRATIFIED, is_new=True), 9, 0.5)
    assert {one.id for one in people("faithfulness").scores} == {f"s{n}" for n in range(4)}


def test_whoever_saw_the_score_of_a_reply_is_not_blind_in_a_later_run(judged):
    seen = start("faithfulness", size=4).open().sample
    labels.label("latest", seen, "agree", by="ada", metric="faithfulness")
    judged.project.evaluation["judge"]["model"] = "another"
    judged.rescore()
    assert {who: start("faithfulness", by=who, size=4).open().sample == seen for who in ("ada", "ben")} == {
        "ada": False, "ben": True
    }  # fmt: skip
    made = [
        labels.label("latest", seen, "rated", by=who, metric="faithfulness", value=0.5, is_blind=True)
        for who in ("ada", "ben")
    ]
    assert [one.is_blind for one in made] == [False, True]
    labels.label("latest", seen, "agree", by="ada", metric="tone")
    judged.project.evaluation["datasets"][0]["metrics"] = [{**RUBRIC, "rubric": "Is it short?"}]
    judged.project.evaluation["thresholds"] = {}
    run_judged(judged)
    assert labels.label("latest", seen, "rated", by="ada", metric="tone", value=0, is_blind=True).is_blind


def test_another_rubric_is_another_question(judged):
    score(start("tone", size=2), 2, 0.4)
    changed = {**RUBRIC, "rubric": "Is it short?"}
    judged.project.evaluation["datasets"][0]["metrics"] = [*JUDGED[:-1], changed]
    run_judged(judged)
    found = people("tone")
    assert (found.scores, found.left_out) == ((), {"the metric, its prompt or its rubric changed": 2})


def test_several_people_count_by_their_mean(many):
    values = {"ada": lambda id: float(int(id[1:]) % 2), "ben": lambda id: float(int(id[1:]) % 3 > 0)}
    for who, value in values.items():
        score(start("string_match", by=who, size=30), 30, value)
    found = people("string_match")
    assert {one.labellers for one in found.scores} == {2}
    assert all(one.value == (values["ada"](one.id) + values["ben"](one.id)) / 2 for one in found.scores)
    table = [[values[who](one.id) for one in found.scores] for who in values]
    assert found.alpha == pytest.approx(krippendorff.alpha(table, level_of_measurement="nominal"))
    graded = [[0.0, 0.4, 1.0, 0.4, 0.1], [0.1, 0.4, 0.9, 0.0, 1.0]]
    expected = krippendorff.alpha(graded, level_of_measurement="interval")
    assert compute_interval_alpha(list(zip(*graded, strict=True))) == pytest.approx(expected)
    assert compute_interval_alpha([[1.0, 1.0], [0.0]]) is None


def test_who_has_seen_the_score_keeps_the_first_label_or_none(many):
    session = start("string_match", size=2)
    score(session, 1, 0.0)
    first = labels.list_labels()[0].sample
    labels.label("latest", first, "rated", by="ada", metric="string_match", value=1.0, is_blind=True)
    found = people("string_match")
    assert ([one.value for one in found.scores], found.left_out) == ([0.0], {"given with the score in sight": 1})
    labels.label("latest", first, "withdrawn", by="ada", metric="string_match")
    assert people("string_match").scores == ()


def test_strata_get_labels_by_size_and_spread_after_a_pilot(many):
    say = lambda id: float(int(id[1:]) < 20 or int(id[1:]) % 2)  # noqa: E731 - people differ among those that fail
    session = start("string_match", kind=DrawKind.STRATIFIED, size=40)
    score(session, 20, say)
    assert session.remaining == 20, "the pilot is at random, then strata are known"
    score(session, 99, say)
    made = labels.list_labels()
    kinds = Counter(one.draw.kind for one in made)
    assert kinds == {DrawKind.RANDOM: 20, DrawKind.STRATIFIED: 20}
    passed = [one for one in made if int(one.sample[1:]) < 20]
    assert 5 <= len(passed) < 14, "all agree with the judge there, so it gets fewer than its share"
    chances = {int(one.id[1:]) < 20: one.draw.probability for one in people("string_match").scores}
    assert chances[True] == pytest.approx(len(passed) / 20)
    assert chances[False] == pytest.approx((40 - len(passed)) / 40)
    assert start("string_match", kind=DrawKind.STRATIFIED, size=40).open() is None, "resumed, it is complete"


def test_it_stops_when_the_threshold_is_decided(many):
    session = start("string_match", kind=DrawKind.SEQUENTIAL)
    score(session, 99, 1.0)
    made = labels.list_labels()
    assert session.stopped.startswith(
        f"decided: the threshold is met; after {len(made)} labels the mean is between 0.5"
    )
    assert 5 < len(made) < 15
    assert [(one.draw.kind, one.draw.place) for one in made] == [
        (DrawKind.SEQUENTIAL, place) for place in range(1, len(made) + 1)
    ]
    assert {one.draw.probability for one in people("string_match").scores} == {len(made) / 60}
    assert start("string_match", by="ben", kind=DrawKind.SEQUENTIAL).stopped, "the gate counts everybody's labels"
    session.undo()
    assert session.stopped is None and session.open() is not None
    for value, said in ((lambda _: 0.0, "the threshold is missed"), (lambda id: float(int(id[1:]) % 2), None)):
        answer_anew(many)
        other = start("string_match", by="ben", kind=DrawKind.SEQUENTIAL)
        score(other, 99, value)
        assert said in other.stopped if said else other.is_undecided and other.open() is None


def answer_anew(many, names=None):
    """Run with another reply to each sample, or to the named ones."""
    many.replies |= {name: f"{text}." for name, text in many.replies.items() if names is None or name in names}
    return many.run()


def test_it_goes_on_where_changed_replies_may_be_anything(many):
    """Twelve labels decided the first run. Of the second, most replies are others, so the gate calls it undecided."""
    score(start("string_match", kind=DrawKind.SEQUENTIAL), 99, 1.0)
    kept = {one.sample for one in labels.list_labels()}
    answer_anew(many, many.replies.keys() - kept)
    session = start("string_match", kind=DrawKind.SEQUENTIAL)
    assert session.is_undecided
    with pytest.raises(InvalidInput, match="the run has labels of --until-decided"):
        start("string_match", kind=DrawKind.STRATIFIED, is_new=True)
    score(session, 99, 1.0)
    assert "the threshold is met; after 2" in session.stopped, "each part has half of the chance of an error"


def test_who_passes_over_what_is_difficult_decides_nothing_by_it(many):
    """Every third reply is skipped. People may have skipped them because they are bad."""
    session = start("string_match", kind=DrawKind.SEQUENTIAL)
    for number in range(30):
        if number % 3 == 2:
            session.skip()
        elif session.open() is not None:
            score(session, 1, 1.0)
    assert session.is_undecided
    said = people("string_match")
    assert (len(said.scores), len(said.unanswered)) == (20, 9)
    stratified = start("string_match", by="ben", run=answer_anew(many), kind=DrawKind.STRATIFIED, size=40)
    score(stratified, 20, 1.0)
    for number in range(20):
        stratified.skip() if number % 2 else score(stratified, 1, 1.0)
    assert len(people("string_match").unanswered) >= 10


@pytest.mark.parametrize("kind", [DrawKind.SEQUENTIAL, DrawKind.STRATIFIED])
def test_used_labels_neither_decide_nor_allocate(many, kind):
    score(start("string_match", kind=kind, size=20), 20, 1.0)
    first = len(use_labels("latest", "string_match", "threshold"))
    session = start("string_match", kind=kind, size=40)
    assert session.stopped is None
    score(session, 1, 1.0)
    assert session.stopped is None
    score(session, 19, 1.0)
    new = [one for one in labels.list_labels() if one.used_for is None]
    if kind is DrawKind.SEQUENTIAL:
        assert f"decided: the threshold is met; after {first} labels" in str(session.stopped)
    else:
        assert {one.draw.kind for one in new} == {DrawKind.RANDOM}, "the pilot begins again"
        assert session.remaining == 20
        score(start("string_match", kind=DrawKind.STRATIFIED, is_new=True), 99, 1.0)
        assert len(labels.list_labels()) == 60


def test_dependent_replies_and_missing_thresholds_decide_nothing(many):
    many.project.evaluation["datasets"][0]["cluster"] = "doc"
    rows = [{"id": f"s{n}", "metadata": {"doc": "one"}} for n in range(4)]
    many.project.evaluation["datasets"] = []
    many.project.dataset("many", rows, metrics=["string_match"], cluster="doc")
    many.run()
    with pytest.raises(InvalidInput, match="the replies are not independent"):
        start("string_match", kind=DrawKind.SEQUENTIAL)
    many.project.evaluation |= {"thresholds": {}, "ciGate": False}
    many.run()
    with pytest.raises(InvalidInput, match="has no threshold on the mean of string_match"):
        start("string_match", kind=DrawKind.SEQUENTIAL)


def test_labels_until_decided_are_not_mixed_with_others(many):
    ask = ("label", "latest", "--as", "ben", "--metric", "string_match")
    score(start("string_match", kind=DrawKind.SEQUENTIAL), 8)
    refused = many.project(*ask, "--random", "9", "--json")
    said = "the run has labels of --until-decided: mixed with others, they correct nothing. continue with it"
    assert (refused.code, said in refused.err) == (2, True), refused.err
    score(start("string_match", by="ben", kind=DrawKind.SEQUENTIAL), 8)
    many.project("labels", "use", "latest", "--metric", "string_match", "--for", "prompt")
    assert many.project(*ask, "--random", "60", "--json").code == 0
    score(start("string_match", by="cleo", size=9), 9)
    with pytest.raises(InvalidInput, match="the run has labels of another draw"):
        start("string_match", kind=DrawKind.SEQUENTIAL)


def test_a_seed_does_not_draw_again_what_is_used_up(many):
    score(start("string_match", size=20, seed=3), 20)
    first = {one.sample for one in use_labels("latest", "string_match", "threshold")}
    again = start("string_match", size=20, seed=3)
    score(again, 20, 0.0)
    found = people("string_match")
    assert len(found.scores) == 20 and not first & {one.id for one in found.scores}
    assert ({one.draw.probability for one in found.scores}, found.unanswered) == ({0.5}, ())
    labels.label("latest", min(first), "rated", by="ben", metric="string_match", value=0.0, is_blind=True)
    assert people("string_match").left_out == {"used to choose a threshold": 21}, "whoever labels them"


def test_new_labels_go_where_they_narrow_the_interval_most(many):
    session = start("string_match", kind=DrawKind.STRATIFIED, is_new=True)
    score(session, 12, lambda id: float(int(id[1:]) < 20 or int(id[1:]) % 2))
    places = ["judge: 1" if int(one.sample[1:]) < 20 else "judge: 0" for one in labels.list_labels()]
    assert places[0] == "judge: 0", "the larger stratum first"
    assert Counter(places)["judge: 0"] > 6


def test_the_questions_are_erased_with_the_texts(judged):
    session = start("faithfulness", size=1)
    session.record(session.open(), "rated", answers=[Answer("SECRET", 1.0)], note="SECRET too")
    erase_labels(STORE, lambda _: True, dry_run=False)
    (made,) = labels.list_labels()
    assert (made.answers, made.value, made.note) == ((Answer("", 1.0),), 1.0, None)


@pytest.mark.parametrize("suffix", [".jsonl", ".csv"])
def test_a_file_of_labels_counts_as_the_store_does(many, suffix):
    for who in ("ada", "ben"):
        score(start("string_match", by=who, size=5), 5)
    path = f"labels{suffix}"
    labels.export_labels(path, ["latest"])
    given = read_label_file(path)
    assert people("string_match", given=given) == people("string_match")
    twice = [*given, *(one for one in given if one.labeller == "ada")]
    assert people("string_match", given=twice).scores == people("string_match").scores
    assert people("string_match", given=twice).left_out == {"two of one person: the first one counts": 5}
    later = [replace(one, value=0.0, at="2099-01-01T00:00:00.000000Z") for one in given]
    assert people("string_match", given=[*later, *given]).scores == people("string_match").scores, "the judge was shown"


def test_faults_of_a_file_have_their_places(many):
    score(start("string_match", size=2), 2)
    labels.export_labels("labels.jsonl", ["latest"])
    first, second = map(json.loads, Path("labels.jsonl").read_text().splitlines())
    bad = [{**first, "value": "many"}, {**second, "replyDigest": None}, {**first, "verdit": "x"}]
    Path("labels.jsonl").write_text("".join(json.dumps(one) + "\n" for one in bad))
    with pytest.raises(InvalidInput) as caught:
        read_label_file("labels.jsonl")
    said = "\n".join(problem.render() for problem in caught.value.problems)
    assert re.search(r"labels\.jsonl:1: value: .*number", said), said
    assert "labels.jsonl:2: replyDigest: " in said and "labels.jsonl:3: verdit: unknown key" in said


def test_a_session_hides_the_judge_until_the_label_is_given(judged):
    with Terminal(judged.project.folder, "label", "latest", "--as", "ada", "--metric", "faithfulness", "--random", "2",
                  NO_COLOR="1") as session:  # fmt: skip
        shown = session.expect("quit")
        assert "1 of 2" in shown and "14 days" in shown
        assert "Score" not in shown and "0.5" not in shown and "not supported" not in shown
        session.act("?", "You may correct the judge's list of statements", "quit")
        session.act("r", "Do the contexts support this statement? 1 of 2: Refunds are paid", "Esc: go back")
        session.act("1", "2 of 2: Customer", "Esc: go back")
        session.act("3", "The text instead")
        session.act("The customer pays.\n", "2 of 2: The customer pays.", "Esc: go back")
        session.act("2", "A statement that is missing")
        session.act("Nobody pays.\n", "support this statement? Nobody pays.", "Esc: go back")
        session.act("2", "A statement that is missing")
        session.act("\n", "you say 0.3333; u takes it back", "Score: faithfulness", "2 of 2")
        session.expect("quit")
        session.act("r", "1 of 2: ", "Esc: go back")
        session.act("\x1b", "nothing was recorded")
        session.expect("quit")
        code, rest = session.quit()
    assert code == 0
    assert re.search(r"to resume: evalspec label \S+ --as ada --metric faithfulness --random 2", rest)
    (made,) = labels.list_labels()
    assert made.is_blind
    assert [(one.question, one.value) for one in made.answers][1:] == [("The customer pays.", 0), ("Nobody pays.", 0)]


def test_a_session_says_that_a_second_label_corrects_nothing(many):
    with Terminal(many.project.folder, "label", "latest", "--as", "ada", "--metric", "string_match", "--random", "3",
                  NO_COLOR="1") as session:  # fmt: skip
        session.expect("quit")
        assert "list of statements" not in session.act("?", "take it back, none does", "quit")
        session.act("r", "Would you give string_match a 1?", "Esc: go back")
        session.act("x", "unknown key; press a number up to 2")
        session.act("1", "you say 1; u takes it back, and then none of yours here corrects the judge", "2 of 3", "quit")
        session.act("u", "took back the label on", "1 of 3", "quit")
        session.act("r", "Would you give string_match a 1?", "Esc: go back")
        session.act("2", "you say 0; u takes it back", "this label does not correct the judge: you have seen")
        session.expect("quit")
        assert session.quit()[0] == 0
    assert people("string_match").scores == ()


def test_a_session_that_decides_says_so(many):
    with Terminal(many.project.folder, "label", "latest", "--as", "ada", "--metric", "string_match", "--until-decided",
                  NO_COLOR="1") as session:  # fmt: skip
        for _ in range(20):
            session.expect("quit")
            session.act("r", "Would you give string_match a 1?", "Esc: go back")
            session.act("1", "you say 1; u takes it back")
            if start("string_match", kind=DrawKind.SEQUENTIAL).stopped:
                break
        session.expect("decided: the threshold is met; after ")
        assert session.quit()[0] == 0
    with Terminal(many.project.folder, "label", "latest", "--as", "ben", "--metric", "string_match", "--until-decided",
                  NO_COLOR="1") as session:  # fmt: skip
        session.expect("decided: the threshold is met; after ")


def test_agreement_with_the_judge_does_not_count_own_scores(many):
    score(start("string_match", size=3), 3)
    labels.label("latest", "s0", "agree", by="ben", metric="string_match")
    (found,) = labels.measure_labels().metrics
    assert (found.agree.labelled, found.agree.value, found.rated) == (1, 1.0, 3)
    labels.label("latest", "s0", "withdrawn", by="ben", metric="string_match")
    told = many.project("labels", "stats")
    assert (told.code, "3 labels" in told.out) == (0, True), told.err
    assert "0 labelled, 3 with people's own scores" in " ".join(told.out.split()).replace(" ,", ","), told.out
    (found,) = labels.measure_labels().metrics
    assert (found.agree.labelled, found.confusion.unknown) == (0, 0)
    assert sum((found.confusion.both_pass, found.confusion.only_people_pass)) == 3


def test_a_conversation_has_no_single_answer_to_score(labelled):
    turns = [{"user": "Hi", "response": "Hello"}, {"user": "Where?", "response": "Paris"}]
    line = {"id": "talk", "turns": [{"user": "Hi"}, {"user": "Where?", "expected": "Paris"}]}
    folder = labelled.project.folder
    (folder / "talk.jsonl").write_text(json.dumps(line) + "\n")
    (folder / "said.jsonl").write_text(json.dumps({"id": "talk", "turns": turns}) + "\n")
    entry = {"name": "talk", "path": "talk.jsonl", "metrics": ["string_match"]}
    labelled.project.evaluation |= {"datasets": [entry], "thresholds": {}, "ciGate": False}
    assert labelled.project.evaluate("--responses", "said.jsonl").code == 0
    refused = labelled.project(
        "label", "latest", "--metric", "string_match", "--sample", "talk", "--verdict", "rated", "--value", "1"
    )
    assert refused.code == 2 and "is a conversation" in refused.err
