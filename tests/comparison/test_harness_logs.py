"""Logs of Inspect and lm-evaluation-harness, as their own packages wrote them, read as runs with their scores.

`harness_logs/write_inspect.py.txt` wrote those of Inspect. In those of lm-evaluation-harness the model is its `dummy`.
"""

import json
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from comparison.small_runs import make_dataset, make_sample, run_of
from evalspec.base.errors import InvalidInput
from evalspec.model import Cause, SampleStatus, ScoreStatus
from evalspec.model.comparisons import Change
from evalspec.verdict.comparison.compare_runs import Choice, compare_runs
from evalspec.verdict.comparison.named_runs import NamedRun
from evalspec.verdict.comparison.run_files import read_run_file
from evalspec.verdict.validity.changes import SignificanceRules
from installed import make_environment

LOGS = Path(__file__).parent / "harness_logs"
GOOD, BAD, EPOCHS = (LOGS / name for name in ("good.eval", "bad.eval", "epochs.json"))
(DATE,) = (path.stem.partition("_")[2] for path in LOGS.glob("results_*.json"))
CHOICES, TEXTS = (LOGS / f"samples_capitals_{kind}_{DATE}.jsonl" for kind in ("mc", "gen"))
RIGHT = {"good": 11, "bad": 2}
"""How many of the twelve questions the model of a log answers."""
MANIFEST = """
apiVersion: agentspec.io/v1
kind: AgentSpec
metadata: {name: capitals, version: 1.0.0}
spec: {evaluation: {thresholds: {THRESHOLDS}, ciGate: true}}
"""


def scores_of(path):
    """The values by sample and metric, and statuses where there is none."""
    (dataset,) = read_run_file(path).run.datasets
    return {
        sample.id: {name: one.value if one.value is not None else one.status for name, one in sample.scores.items()}
        for sample in dataset.samples
    }


def expected_scores(right):
    """What the model of write_inspect did: "Paris it is" to the first questions has a third of the words of "Paris"."""
    answers = {f"q{number}": number <= right for number in range(1, 13)}
    return {name: {"includes": float(is_right), "f1": 0.5 * is_right} for name, is_right in answers.items()}


@pytest.mark.parametrize("name", RIGHT)
def test_scores_are_those_that_the_model_earned(name):
    assert scores_of(LOGS / f"{name}.eval") == expected_scores(RIGHT[name])


def test_zstd_changes_nothing_and_needs_an_extra(monkeypatch):
    assert scores_of(LOGS / "good-zstd.eval") == scores_of(GOOD)
    monkeypatch.setitem(sys.modules, "zstandard", None)
    assert scores_of(GOOD)
    with pytest.raises(InvalidInput, match=r"needs zstandard, .* pip install 'zstandard>=0\.22'"):
        read_run_file(LOGS / "good-zstd.eval")


def compare(before, after, **choice):
    return compare_runs(before, [after], SignificanceRules(), Choice(**choice)).candidates[0]


def test_the_verdict_is_that_of_the_same_data_as_own_runs():
    own = [
        NamedRun(name, run_of(make_dataset([make_sample(*one) for one in expected_scores(right).items()], "capitals")))
        for name, right in RIGHT.items()
    ]
    logs = [read_run_file(path) for path in (GOOD, BAD)]
    (theirs,), (ours,) = (compare(*pair).datasets for pair in (logs, own))
    assert {name: one.verdict for name, one in theirs.metrics.items()} == dict.fromkeys(
        ("includes", "f1"), Change.DEGRADED
    )
    assert theirs.metrics == ours.metrics
    assert {one.id: one.scores for one in theirs.samples} == {one.id: one.scores for one in ours.samples}
    assert compare(*logs).differences == ("agent: its prompt or its settings",)


def test_epochs_are_attempts_and_missing_values_have_a_status_and_a_cause():
    found = read_run_file(EPOCHS)
    samples = {sample.id: sample for sample in found.run.datasets[0].samples}
    assert found.run.fingerprint.repeats.agent == 2
    assert {name: len(sample.attempts) for name, sample in samples.items()} == dict.fromkeys(samples, 2)
    assert samples["q1"].scores["parts/length"].value == len("Paris it is")
    assert samples["q5"].scores["parts/grounded"].value == 0.5  # P
    assert samples["q5"].scores["letters"].value == 0.0  # N
    absent, unscored = samples["q2"].scores["letters"], samples["q3"].scores["letters"]
    assert (absent.status, absent.cause) == (ScoreStatus.NOT_APPLICABLE, Cause.OTHER)
    assert (unscored.status, "'NaN'" in unscored.reason) == (ScoreStatus.FAILED, True)
    failed, answered = samples["q4"].attempts
    assert (failed.status, failed.error) == (SampleStatus.FAILED, "RuntimeError('the tool broke')")
    assert {(one.status, one.cause) for one in failed.scores.values()} == {(ScoreStatus.FAILED, Cause.REPLY)}
    assert (answered.scores["includes"].value, samples["q4"].scores["includes"].value) == (1.0, None)
    assert [metric for metric, one in found.run.datasets[0].metrics.items() if one.bounds is None] == ["parts/length"]
    notes = "\n".join(found.notes)
    for missing in ("2 epochs", "no clusters", "no direction of includes", "no range of parts/length"):
        assert missing in notes


def test_documents_after_each_filter():
    assert {name: set(scores) for name, scores in scores_of(CHOICES).items()} == {
        str(number): {"acc", "acc_norm"} for number in range(6)
    }
    lines = [json.loads(line) for line in CHOICES.read_text().splitlines()]
    assert {name: one["acc"] for name, one in scores_of(CHOICES).items()} == {
        str(line["doc_id"]): line["acc"] for line in lines
    }
    texts = read_run_file(TEXTS)
    (dataset,) = texts.run.datasets
    assert dataset.name == "capitals_gen"
    assert texts.run.fingerprint.agent.name == "dummy"
    assert {name: (one.scored, one.not_applicable) for name, one in dataset.metrics.items()} == {
        "exact_match,strict": (6, 0),
        "exact_match,loose": (6, 0),
        "bleu,strict": (0, 6),  # lists, of which only the corpus has a value
        "bleu,loose": (0, 6),
    }
    assert any("no failed requests" in note for note in texts.notes)


@pytest.mark.parametrize("value", ["NaN", [0, 1], {"a": 1}, None], ids=str)
def test_a_document_without_a_number_has_failed_if_others_have_one(value, tmp_path):
    """Otherwise it would leave the denominator, as if the metric were one of the corpus."""
    first, *others = [json.loads(line) for line in CHOICES.read_text().splitlines()]
    path = tmp_path / CHOICES.name
    path.write_text("".join(f"{json.dumps(one)}\n" for one in (first | {"acc": value}, *others)))
    summary = read_run_file(path).run.datasets[0].metrics["acc"]
    assert (summary.scored, summary.failed, summary.not_applicable) == (5, 1, 0)


def own_run(project, name, question="Question {}?"):
    """A run with the samples and the scorer of a log."""
    (project.folder / "scorers.py").write_text("def includes(reply):\n    return float('Paris' in reply.response)\n")
    samples = [{"id": f"q{n}", "input": question.format(f"q{n}"), "expected": "Paris"} for n in range(1, 13)]
    (project.folder / "qa.jsonl").write_text("".join(f"{json.dumps(one)}\n" for one in samples))
    replies = [{"id": one["id"], "input": one["input"]} for one in samples]
    said = ["Paris it is"] * RIGHT[name] + ["Not sure"] * (12 - RIGHT[name])
    lines = [json.dumps(one | {"response": text}) for one, text in zip(replies, said, strict=True)]
    (project.folder / "replies.jsonl").write_text("\n".join(lines))
    (project.folder / "agent.yaml").write_text(
        MANIFEST.replace(
            "{thresholds: {THRESHOLDS}, ciGate: true}",
            "{datasets: [{name: capitals, path: qa.jsonl, metrics: [{name: includes, range: [0, 1], scorer: "
            "'scorers:includes'}]}]}",
        ),
    )
    assert project("evaluate", "agent.yaml", "--responses", "replies.jsonl", "-q").code in (0, 3)


def test_a_log_is_compared_with_a_run_by_the_ids_of_its_samples(project):
    own_run(project, "bad")
    found = project("compare", str(GOOD), "latest", "--json").document["candidates"][0]["datasets"][0]
    change = found["metrics"]["includes"]
    assert (len(found["metrics"]), change["verdict"], change["delta"], change["pairs"]) == (
        1,
        "degraded",
        -0.75,
        12,
    )


def test_a_run_that_asked_other_questions_is_not_compared_with_a_log(project):
    own_run(project, "bad", "Which {}?")
    done = project("compare", str(GOOD), "latest")
    assert done.code == 2
    assert "dataset capitals: 12 samples changed (q1" in done.err


@pytest.mark.parametrize(
    ("log", "thresholds", "code", "said"),
    [
        (GOOD, "includes: {min: 0.5, confidence: 0.95}", 0, "PASS"),
        (GOOD, "includes: {min: 0.8, confidence: 0.95}", 1, "its 95 % interval reaches"),
        (BAD, "includes: 0.9", 1, "0.1667 is below 0.9"),
        (EPOCHS, "includes: 0.7", 3, "4 of 5 scored (1 failed), minCoverage is 1"),
        (CHOICES, "acc: 0.1", 0, "PASS"),
        (GOOD, "include: 0.9", 2, "the log has no score of include. did you mean 'includes'?"),
    ],
    ids=["met", "noise", "broken", "failed samples", "lm_eval", "no such metric"],
)
def test_thresholds_of_a_manifest_decide(log, thresholds, code, said, project):
    (project.folder / "limits.yaml").write_text(MANIFEST.replace("THRESHOLDS", thresholds))
    done = project("report", str(log), "--manifest", "limits.yaml", "-o", "report.json", "-o", "report.html")
    assert (done.code, said in done.out + done.err) == (code, True), done.out + done.err
    if code != 2:
        assert json.loads((project.folder / "report.json").read_text())["exitCode"] == code
        assert read_run_file(project.folder / "report.json").run.datasets[0].name.startswith("capitals")


def test_the_gate_compares_a_log_with_a_log(project):
    shutil.copy(GOOD, project.folder)
    gate = "ciGate: {baseline: ./good.eval, maxDrop: 0.05}"
    (project.folder / "limits.yaml").write_text(MANIFEST.replace("thresholds: {THRESHOLDS}, ciGate: true", gate))
    done = project("report", str(BAD), "--manifest", "limits.yaml", "--json")
    assert done.code == 1
    assert {(one["metric"], one["status"]) for one in done.document["regressions"] if one["metric"]} == {
        ("includes", "FAIL"),
        ("f1", "FAIL"),
    }
    assert project("report", str(GOOD), "--manifest", "limits.yaml").code == 0


def repack(target, change=lambda name, content: content, more=()):
    """The log GOOD with changed members. A member whose content becomes None is left out."""
    with zipfile.ZipFile(GOOD) as log, zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as written:
        for member in log.infolist():
            content = change(member.filename, log.read(member))
            if content is not None:
                written.writestr(member.filename, content)
        for name, content in more:
            written.writestr(name, content)
    return target


def edit(name, **keys):
    def change(member, content):
        return json.dumps(json.loads(content) | keys) if member == name else content

    return change


def score_q1(value):
    return edit("samples/q1_epoch_1.json", scores={"includes": {"value": value}})


HEADER, SAMPLE = "header.json", "samples/q1_epoch_1.json"
Q1 = zipfile.ZipFile(GOOD).read(SAMPLE)
HOSTILE = {
    "bomb": ({"more": [("samples/b.json", b"0" * (65 * 2**20))]}, r"samples/b.json: unpacks to more than 67,108,864"),
    "broken": ({"more": [("samples/b.json", b'{"id": ')]}, r"samples/b.json:.* not valid JSON"),
    "deep": ({"more": [("samples/b.json", b"[" * 10**6)]}, "not valid JSON"),
    "twice": ({"more": [("samples/q1_again.json", Q1)]}, "sample id 'q1' occurs 2 times"),
    "version": ({"change": edit(HEADER, version=3)}, "version: version 3 of the log is not supported; supported: 2"),
    "types": ({"change": edit(SAMPLE, id=[])}, "samples/q1_epoch_1.json: id: "),
    "epoch": ({"change": edit(SAMPLE, epoch=-1)}, "samples/q1_epoch_1.json: epoch: "),
    "many": ({"change": edit(SAMPLE, epoch=10**12)}, "eval.config.epochs: 12 samples with 1,000,000,000,000 epochs"),
    "empty": ({"change": lambda name, content: None if "samples/" in name else content}, "has no samples"),
    "headless": ({"change": lambda name, content: content if "samples/" in name else None}, "has neither header.json"),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_log_is_refused_with_one_line(name, project):
    parts, said = HOSTILE[name]
    log = repack(project.folder / "log.eval", **parts)
    with pytest.raises(InvalidInput, match=said):
        read_run_file(log, "log.eval")
    done = project("report", "log.eval")
    assert (done.code, done.err.startswith("evalspec: log.eval: "), done.err.count("\n")) == (2, True, 1)


@pytest.mark.parametrize("value", [float("nan"), 7, "c", None, {"x": None}, 10**400], ids=str)
def test_a_value_that_is_no_score_is_a_failed_one(value, tmp_path):
    found = scores_of(repack(tmp_path / "log.eval", score_q1(value)))["q1"]
    assert set(found.values()) <= {ScoreStatus.FAILED, ScoreStatus.NOT_APPLICABLE, 7.0}
    assert found.get("includes") != 0.0


def test_a_truncated_archive_and_a_renamed_one(tmp_path):
    (tmp_path / "cut.eval").write_bytes(GOOD.read_bytes()[:9000])
    with pytest.raises(InvalidInput, match=r"cut\.eval: cannot be read: "):
        read_run_file(tmp_path / "cut.eval")
    flipped = bytearray(GOOD.read_bytes())
    flipped[zipfile.ZipFile(GOOD).getinfo(SAMPLE).header_offset + 200] ^= 255
    (tmp_path / "flipped.eval").write_bytes(flipped)
    with pytest.raises(InvalidInput, match=r"flipped\.eval: samples/q1_epoch_1\.json: cannot be unpacked: "):
        read_run_file(tmp_path / "flipped.eval")


def test_an_evaluation_that_did_not_end_is_incomplete(project):
    (project.folder / "limits.yaml").write_text(MANIFEST.replace("THRESHOLDS", "includes: 0.5"))
    lost = {"samples/q1_epoch_1.json", "header.json"}
    repack(project.folder / "log.eval", lambda name, content: None if name in lost else content)
    done = project("report", "log.eval", "--manifest", "limits.yaml", "--json")
    assert (done.code, done.document["verdict"]) == (3, "INCOMPLETE")
    (q1, *_) = done.document["datasets"][0]["samples"]
    assert (q1["id"], q1["error"], q1["scores"]["includes"]["status"]) == ("q1", "not in the log", "failed")
    repack(project.folder / "log.eval", edit(HEADER, status="cancelled"))
    done = project("report", "log.eval", "--manifest", "limits.yaml")
    assert (done.code, "Inspect log: its status is cancelled" in done.out) == (3, True)


@pytest.mark.parametrize(
    ("lines", "said"),
    [
        (
            ['{"doc_id": 0, "doc": {}, "target": 1, "arguments": {}, "resps": [], "filtered_resps": [], "acc": NaN}'],
            ":1: NaN",
        ),
        (["FIRST", "FIRST"], r"document 0 occurs 2 times after the filter 'none'"),
        (["FIRST", '{"doc_id": "x"}'], r"jsonl:2: doc_id: expected a whole number"),
        (["FIRST", "[1]"], r"jsonl:2: "),
    ],
    ids=["NaN", "twice", "type", "no object"],
)
def test_hostile_lines(lines, said, tmp_path):
    first = CHOICES.read_text().splitlines()[0]
    path = tmp_path / CHOICES.name
    path.write_text("\n".join(lines).replace("FIRST", first))
    with pytest.raises(InvalidInput, match=said):
        read_run_file(path)


def test_files_that_are_not_the_samples(tmp_path):
    (results,) = LOGS.glob("results_*.json")
    with pytest.raises(InvalidInput, match="has no scores of single samples, or was renamed"):
        read_run_file(results)
    alone = tmp_path / CHOICES.name
    shutil.copy(CHOICES, alone)
    assert any("the model and its prompt are unknown" in note for note in read_run_file(alone).notes)


def test_an_option_for_logs_needs_a_log(project):
    (project.folder / "limits.yaml").write_text(MANIFEST.replace("THRESHOLDS", "includes: 0.5"))
    done = project("report", "limits.yaml", "--manifest", "limits.yaml")
    assert (done.code, "is not a log of another harness" in done.err) == (2, True)


def test_logs_that_inspect_writes_now(tmp_path):
    """With the installed release of Inspect in an environment of its own, which packs with zstd."""
    python = make_environment(tmp_path / "v", "inspect_ai>=0.3.285")
    subprocess.run([python, str(LOGS / "write_inspect.py.txt"), str(tmp_path)], check=True, capture_output=True)
    for name in ("good.eval", "bad.eval", "epochs.json"):
        assert scores_of(tmp_path / name) == scores_of(LOGS / name)
