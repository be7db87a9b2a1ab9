"""A file of a run that is not what was written is known, whatever became of it."""

import json
import random
import shutil
from datetime import UTC, datetime
from typing import Any

import pytest

import evalspec
from evalspec.model import AgentReply, Exchange, Sample, Score, SearchTrace
from evalspec.model.log import InputRecord, ReplyRecord, ScoresRecord
from evalspec.runs.store.damage import list_damage
from evalspec.runs.store.log_index import AttemptKey
from evalspec.runs.store.run_log import RunLog
from evalspec.runs.store.run_store import RunStore
from evalspec.runs.store.stored_run import open_run
from fingerprints import as_fingerprint
from servers.service import write_project
from stored_log import FINGERPRINT, edit_description

_METRIC = {"name": "m", "statistic": "mean", "direction": "higher", "bounds": [0, 1]}
OUTLINE: dict[str, Any] = {"policy": {}, "datasets": [{"name": "qa", "file": "qa.jsonl", "metrics": [_METRIC]}]}


def unchanged(value):
    return value


@pytest.fixture
def folder(tmp_path):
    return write_run(tmp_path, "what?")


@pytest.fixture
def other(tmp_path):
    return write_run(tmp_path, "why?")


def write_run(store, question):
    """A finished run of eight samples that a retriever answered, each with the same two texts."""
    with RunStore(store).create(datetime.now(UTC), redact=unchanged) as log:
        log.write_description(as_fingerprint(FINGERPRINT), OUTLINE)
        log.write_inputs((InputRecord("qa", Sample(f"s{n}", question)) for n in range(8)), ())
        for n in range(8):
            trace = SearchTrace({"retrieve": 1.0}, {})
            texts = (f"text of document {n % 2}", "the same everywhere")
            log.append(ReplyRecord.of("qa", 1, Exchange(Sample(f"s{n}", question), AgentReply("", texts, trace=trace))))
            log.append(ScoresRecord("qa", f"s{n}", 1, {"m": Score.scored(n / 8)}, {}))
        log.write_report('{"verdict": "PASS"}\n')
    return log.folder


def test_a_run_that_nothing_has_touched_is_whole(folder):
    assert list_damage(folder) == []
    log = (folder / "samples.jsonl").read_bytes()
    assert log.count(b"the same everywhere") == 1, "a text is stored once"
    index = open_run(folder).read_index()
    exchange = index.read_exchange(index.attempts[AttemptKey("qa", "s3", 1)], Sample("s3", "what?"))
    assert exchange.reply.retrieved_contexts == ("text of document 1", "the same everywhere")


@pytest.mark.parametrize("name", ["samples.jsonl", "inputs.jsonl", "report.json", "run.json"])
def test_no_flipped_bit_goes_unseen(name, folder, tmp_path):
    """Every one of 200 random bits; in run.json one of a line's indentation may be harmless."""
    draw, path = random.Random(3), folder / name
    whole = path.read_bytes()
    for _ in range(200):
        place, bit = draw.randrange(len(whole)), 1 << draw.randrange(8)
        path.write_bytes(whole[:place] + bytes([whole[place] ^ bit]) + whole[place + 1 :])
        damage = list_damage(folder)
        assert damage or json.loads(path.read_bytes()) == json.loads(whole), (place, bit)
        if name == "samples.jsonl":
            _resume_and_check(folder, tmp_path / "copy")
    path.write_bytes(whole)


def _resume_and_check(folder, copy):
    """What is left of a damaged log is as it was written, and it can be appended to."""
    shutil.copytree(folder, copy)
    with RunLog(copy, redact=unchanged) as log:
        index = log.go_on_from(open_run(copy).read_index())
        for key, asking in index.attempts.items():
            assert all(score.value == int(key.sample_id[1:]) / 8 for score in asking.scores.values())
        for n in range(8):
            if AttemptKey("qa", f"s{n}", 1) not in index.attempts:
                log.append(ReplyRecord.of("qa", 1, Exchange(Sample(f"s{n}", "what?"), AgentReply("again"))))
        log.write_report("{}")
    assert list_damage(copy) == []
    assert len(open_run(copy).read_index().attempts) == 8
    shutil.rmtree(copy)


@pytest.mark.parametrize("name", ["samples.jsonl", "inputs.jsonl"])
@pytest.mark.parametrize("change", ["cut", "swapped", "doubled"])
def test_lines_that_are_gone_or_elsewhere_are_missed(name, change, folder):
    path = folder / name
    lines = path.read_bytes().splitlines(keepends=True)
    order = {
        "cut": [*lines[:3], *lines[4:]],
        "swapped": [lines[1], lines[0], *lines[2:]],
        "doubled": [lines[0], *lines],
    }
    path.write_bytes(b"".join(order[change]))
    (first, *_) = list_damage(folder)
    assert f"{name}:{ {'cut': 4, 'swapped': 1, 'doubled': 2}[change] }: expected record" in first


@pytest.mark.parametrize(("name", "said"), [("report.json", "missing"), ("inputs.jsonl", "No such file")])
def test_files_that_are_gone_are_missed(name, said, folder):
    (folder / name).unlink()
    assert said in list_damage(folder)[0]


@pytest.mark.parametrize("kept", [0, 10, 17])
def test_the_end_of_the_log_of_a_finished_run_is_missed(kept, folder):
    path = folder / "samples.jsonl"
    path.write_bytes(b"".join(path.read_bytes().splitlines(keepends=True)[:kept]))
    (damage,) = list_damage(folder)
    assert "the end is missing" in damage


def test_files_of_another_run_are_not_taken_for_its_own(folder, other):
    for names, said in (
        (["samples.jsonl", "report.json"], f"this is the log of run {other.name}"),
        (["inputs.jsonl"], "damaged: the checksum does not match"),
    ):
        kept = {name: (folder / name).read_bytes() for name in names}
        for name in names:
            shutil.copy(other / name, folder / name)
        assert any(said in damage for damage in list_damage(folder)), list_damage(folder)
        for name in names:
            (folder / name).write_bytes(kept[name])
    assert list_damage(folder) == []


def test_samples_cut_off_at_the_end_are_missed(folder):
    path = folder / "inputs.jsonl"
    path.write_bytes(b"".join(path.read_bytes().splitlines(keepends=True)[:6]))
    assert list_damage(folder) == [f"{path}: 6 of 8 samples"]


def test_a_damaged_log_stays_beside_the_mended_one(folder):
    path = folder / "samples.jsonl"
    path.write_bytes(path.read_bytes().replace(b"text of document 0", b"text of dokument 0"))
    damaged = path.read_bytes()
    with RunLog(folder, redact=unchanged) as log:
        index = log.go_on_from(open_run(folder).read_index())
    assert sorted(key.sample_id for key in index.attempts) == ["s1", "s3", "s5", "s7"], "the others lost their text"
    assert (folder / "samples.damaged-1.jsonl").read_bytes() == damaged


@pytest.mark.parametrize(
    ("number", "said"), [("8", "damaged"), ("1e999", "1e999 is too large"), ("NaN", "NaN is not JSON")]
)
def test_a_number_that_none_wrote_in_the_description_is_damage(number, said, folder):
    path = folder / "run.json"
    path.write_text(path.read_text().replace('"seed": 7', f'"seed": {number}'))
    (damage,) = list_damage(folder)
    assert "run.json: " in damage and said in damage


@pytest.mark.parametrize("key", ["manifest", "agent", "selection", "repeats"])
def test_a_description_without_what_commands_rely_on_is_damage(key, folder):
    edit_description(folder, fingerprint={name: value for name, value in FINGERPRINT.items() if name != key})
    (damage,) = list_damage(folder)
    assert f"there is no {key}" in damage


@pytest.mark.parametrize("references", [{"tags": []}, {"env:T": "short"}, {"file:/etc/passwd": "0" * 160}])
def test_a_description_with_references_that_none_wrote_is_damage(references, folder):
    edit_description(folder, fingerprint=FINGERPRINT | {"references": references})
    (damage,) = list_damage(folder)
    assert "Expected `str` matching regex" in damage


def test_a_description_with_a_number_that_json_has_not_is_damage(folder):
    edit_description(folder, fingerprint=FINGERPRINT | {"settings": {"a": float("inf")}})
    (damage,) = list_damage(folder)
    assert "Infinity is not JSON" in damage


@pytest.mark.parametrize("bounds", [[0, float("nan")], [1, 0], [float("inf"), None], [0.5, 0.5]])
def test_scores_and_ranges_that_cannot_be_are_damage(bounds, folder):
    dataset = OUTLINE["datasets"][0] | {"metrics": [_METRIC | {"bounds": bounds}]}
    edit_description(folder, outline=OUTLINE | {"datasets": [dataset]})
    (damage,) = list_damage(folder)
    said = ("'m' has an invalid range", "m of 's0' is 0, outside 0.5 to 1", "is not JSON")
    assert any(message in damage for message in said)


@pytest.mark.parametrize("repeats", [0, -1, False, 10**9])
def test_a_number_of_repeats_that_no_run_can_have_is_damage(repeats, folder):
    edit_description(folder, outline=OUTLINE | {"repeats": repeats})
    (damage,) = list_damage(folder)
    assert "repeats" in damage


def test_an_error_that_quotes_half_a_surrogate_pair_can_be_read(tmp_path):
    """msgspec reads no such text, so the whole run was unreadable."""

    def agent(question):
        raise ValueError("\ud800 of \\ud800")

    run = evalspec.evaluate(write_project(tmp_path) / "agent.yaml", agent=agent, store=tmp_path / ".evalspec")
    index = open_run(tmp_path / ".evalspec" / "runs" / run.id).read_whole_index()
    assert {one.attempt.error.endswith("ValueError: \ud800 of \\ud800") for one in index.attempts.values()} == {True}
