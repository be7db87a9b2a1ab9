"""Export and import: exact round trips, every faulty line, all or nothing."""

import csv
import json
import re
import tempfile
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evalspec import labels
from evalspec.base.errors import InvalidInput
from evalspec.curation.labels.exchanging import render_labels
from evalspec.curation.labels.records import WITH_VALUE, list_faults
from evalspec.model.corrections import Draw, DrawKind
from evalspec.model.labels import OF_REPLIES, OF_SCORES, Answer, Label, LabelVerdict
from hostile_texts import HOSTILE, steering

RUN = "20261121T103706.257Z-57f26458"
texts = st.one_of(st.text(min_size=1), st.sampled_from(["=1+1", "'=x", "''", '"', '"a"', "-", "＝a", "\t", "a\r\nb"]))
texts |= st.sampled_from(sorted(HOSTILE.values())).filter(lambda text: text.encode("utf-8", "ignore").decode() == text)
numbers = st.floats(-1e100, 1e100)
draws = st.builds(
    Draw,
    kind=st.sampled_from(DrawKind),
    seed=st.none() | st.integers(0, 9),
    probability=st.none() | st.floats(0.01, 1),
    place=st.none() | st.integers(1, 99),
)
answers = st.lists(st.builds(Answer, texts, numbers), max_size=3).map(tuple)


@st.composite
def any_label(draw):
    metric = draw(st.none() | texts)
    verdict = draw(st.sampled_from([*(OF_REPLIES if metric is None else OF_SCORES), LabelVerdict.WITHDRAWN]))
    judged = {} if metric is None else {
        "shown_value": draw(numbers), "metric_key": draw(texts), "metric_identity": draw(st.dictionaries(texts, texts)),
    }  # fmt: skip
    return Label(
        run=RUN,
        dataset=draw(texts),
        sample=draw(texts),
        attempt=draw(st.integers(1, 99)),
        metric=metric,
        verdict=verdict,
        value=draw(numbers) if verdict in WITH_VALUE else None,
        is_blind=verdict is LabelVerdict.RATED and draw(st.booleans()),
        draw=draw(draws),
        answers=draw(answers) if verdict is LabelVerdict.RATED else (),
        note=draw(st.none() | texts),
        labeller=draw(texts),
        at=f"2026-11-21T10:37:06.{draw(st.integers(0, 999_999)):06}Z",
        is_informed=draw(st.booleans()),
        sample_digest="abc",
        reply_digest="def",
        **judged,
    )


valid = any_label().filter(lambda label: not list(list_faults(label)))
"""Nobody says two things about one target at the same time: `find_time` gives each label a later one."""


@pytest.mark.parametrize("suffix", [".jsonl", ".csv"])
@given(made=st.lists(valid, max_size=4, min_size=1, unique_by=lambda one: (one.target, one.labeller, one.at)))
def test_what_is_exported_is_imported_exactly(suffix, made):
    with tempfile.TemporaryDirectory() as folder:
        path, again, store = Path(folder, f"a{suffix}"), Path(folder, f"b{suffix}"), Path(folder, ".evalspec")
        path.write_bytes(render_labels(made, suffix))
        labels.import_labels(path, store=store)
        found = labels.list_labels(RUN, history=True, store=store)
        assert {render_labels([one], ".jsonl") for one in found} == {render_labels([one], ".jsonl") for one in made}
        labels.export_labels(again, [RUN], history=True, store=store)
        assert labels.import_labels(again, store=store).added == {}


@pytest.mark.parametrize("suffix", [".jsonl", ".csv"])
def test_no_export_controls_a_terminal_or_a_spreadsheet(suffix):
    made = [Label(run=RUN, dataset=text, sample=text, verdict=LabelVerdict.GOOD, note="=cmd()", labeller="@x", at="")
            for text in HOSTILE.values()]  # fmt: skip
    content = render_labels(made, suffix).decode()
    assert not steering(content.replace("\r\n", "\n"))
    if suffix == ".csv":
        rows = list(csv.DictReader(content.splitlines()))
        assert {(row["note"], row["labeller"]) for row in rows} == {("'=cmd()", "'@x")}


def write(path, *lines, suffix=".csv"):
    path = path / f"labels{suffix}"
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


HEAD = "run,dataset,sample,verdict,labeller,metric,value,note,at"


def test_a_spreadsheet_by_hand(labelled, tmp_path):
    run = labels.label("latest", "s0", "good", by="ada").run
    path = write(tmp_path, HEAD, f"{run},qa,s0,bad,ben,,,No.,", f"{run},qa,s1,good,ben,,,,2099-01-01T12:00+02:00",
                 f"{run},qa,s2,disagree,ben,string_match,1,,")  # fmt: skip
    assert labels.import_labels(path).added == {run: 3}
    found = {one.target: one for one in labels.list_labels() if one.labeller == "ben"}
    assert found["qa", "s1", 1, None].at == "2099-01-01T10:00:00.000000Z"
    assert found["qa", "s2", 1, "string_match"].shown_value == 0.0
    assert labels.measure_labels().labellers == {"ben": 3, "ada": 1}, "it is about the replies of the run"
    done = labels.import_labels(path)
    assert (done.added, done.known) == ({}, 3)
    assert len(labels.list_labels(history=True)) == 4


def test_of_two_lines_about_the_same_the_later_one_counts(labelled, tmp_path):
    run = labels.label("latest", "s0", "good", by="ada").run
    labels.import_labels(write(tmp_path, HEAD, f"{run},qa,s1,good,ben,,,,", f"{run},qa,s1,bad,ben,,,,"))
    (found,) = [one for one in labels.list_labels() if one.labeller == "ben"]
    assert found.verdict == "bad"


def test_every_faulty_line_is_reported_and_nothing_is_imported(labelled, tmp_path):
    run = labels.label("latest", "s0", "good", by="ada").run
    path = write(
        tmp_path, HEAD,
        f"{run},qa,s1,good,ben,,,,",
        f"{run},qa,s9,good,ben,,,,",
        f"{run},qq,s1,good,ben,,,,",
        f"{run},qa,s1,fine,ben,,,,",
        f"{run},qa,s1,agree,ben,string_mach,,,",
        f"{run},qa,s1,disagree,ben,string_match,7,,",
        f"{run},qa,s1,disagree,ben,string_match,many,,",
        f"{run},qa,s1,good,ben,,,,yesterday",
        f"{run},qa,s1,good",
        "../../x,qa,s1,good,ben,,,,",
        "20200101T000000.000Z-0,qa,s1,good,ben,,,,",
        f"{run},qa,,good,ben,,,,",
    )  # fmt: skip
    with pytest.raises(InvalidInput) as caught:
        labels.import_labels(path)
    lines = {problem.line: problem.render() for problem in caught.value.problems}
    assert sorted(lines) == list(range(3, 14))
    for line, said in {
        3: "sample: run",
        4: "dataset: run",
        5: "verdict: ",
        6: "did you mean 'string_match'?",
        7: "value: 7 is outside 0 to 1",
        8: "value: expected a number",
        9: "at: 'yesterday' is not a time",
        10: "the row has 4 cells, and the header 9",
        11: "run: '../../x' is not the id of a run",
        12: "replyDigest: the line does not say what was judged",
        13: "sample: is missing",
    }.items():
        assert lines[line].startswith(f"{path}:{line}: "), lines[line]
        assert said in lines[line]
    assert [one.labeller for one in labels.list_labels(history=True)] == ["ada"]


@pytest.mark.parametrize(
    ("suffix", "content", "said"),
    [
        (".csv", "run,dataset,sample,verdict,labeler\n", "labeler: unknown column. did you mean 'labeller'?"),
        (".csv", "run;dataset;sample;verdict;labeller\n", "separated by semicolons"),
        (".csv", "run,dataset,sample,verdict,labeller,run\n", "run: the column is duplicated"),
        (".csv", "", "the file is empty"),
        (".jsonl", "[1]\n", "the file is a JSON array"),
        (".jsonl", '"x"\n', "expected a JSON object"),
        (".jsonl", '{"run": "r", "verdicts": 1}\n', "verdicts: unknown key. did you mean 'verdict'?"),
        (".txt", "", "labels are in .jsonl or .csv files"),
    ],
)
def test_other_files(labelled, tmp_path, suffix, content, said):
    path = tmp_path / f"x{suffix}"
    path.write_text(content)
    told = labelled.project("labels", "import", str(path))
    assert (told.code, said in told.err) == (2, True), told.err


def test_exports_of_the_command(labelled, tmp_path):
    (label,) = labelled.say("s0", ada="good")
    assert [json.loads(line)["sample"] for line in labelled.project("labels", "export").out.splitlines()] == ["s0"]
    assert labelled.project("labels", "export", "-o", "x.csv").code == 0
    assert labelled.project("labels", "import", "x.csv", "--json").document["known"] == 1
    inside = labelled.project("labels", "export", "-o", f".evalspec/verdicts/{label.run}/x.jsonl")
    assert (inside.code, "would change evalspec's own store" in inside.err) == (2, True)


def test_a_run_without_labels_of_its_own_names_the_runs_that_have_some(labelled):
    (made,) = labelled.say("s0", ada="good")
    labelled.rescore()
    said = f"no labels were given on latest; labels are kept with the run that people looked at, here {made.run}"
    for command in (("list",), ("export",), ("export", "-o", "labels.jsonl")):
        told = labelled.project("labels", *command)
        assert (told.code, said in told.err) == (0, True), told.err
    assert said not in labelled.project("labels", "export", made.run).err


def test_a_blind_score_of_a_file_by_hand_is_bound_and_shows_no_score(labelled):
    run = labels.label("latest", "s1", "good", by="ben").run
    line = {"run": run, "dataset": "qa", "sample": "s0", "metric": "string_match", "verdict": "rated", "value": 1}
    Path("given.jsonl").write_text(json.dumps(line | {"labeller": "ada", "isBlind": True}))
    labels.import_labels("given.jsonl")
    (one,) = (one for one in labels.list_labels() if one.labeller == "ada")
    assert one.reply_digest is not None
    assert one.shown_value is None


KNOWN = f'"run": "{RUN}", "dataset": "d", "sample": "s", "labeller": "a"'


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("{", "enclosed in double quotes. write one label per line"),
        ("3", "expected a JSON object. write one label per line"),
        (f'{{{KNOWN}}}', "verdict: is missing. write good, bad, agree"),
        (f'{{{KNOWN}, "verdict": "good", "attempt": 0}}', "write the number of the attempt, from 1"),
        (f'{{{KNOWN}, "verdict": "good", "value": "x"}}', 'expected a number, not "x". write the score as a number'),
        (f'{{{KNOWN}, "verdict": "good", "draw": {{"kind": "x"}}}}', "copy it from `evalspec labels export`"),
    ],
)  # fmt: skip
def test_each_malformed_line_says_what_to_write(labelled, tmp_path, line, said):
    with pytest.raises(InvalidInput) as caught:
        labels.import_labels(write(tmp_path, line, suffix=".jsonl"))
    (problem,) = caught.value.problems
    assert (problem.line, said in problem.render()) == (1, True), problem.render()


@pytest.mark.parametrize(
    ("name", "said"),
    [("gone.jsonl", "there is no file gone.jsonl"), ("labels.txt", "labels are in .jsonl or .csv files")],
)
def test_a_file_of_labels_that_cannot_be_one_has_its_place_in_the_manifest(labelled, name, said):
    labelled.project.evaluation["ciGate"] = {"judge": {"labels": name}}
    Path("labels.txt").touch()
    assert re.search(rf"agent.yaml:\d+: spec.evaluation.ciGate.judge.labels: {said}", labelled.project.validate().out)
