import json
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import UNSET

from evalspec.base.errors import StoreError
from evalspec.model import AgentReply, Cause, Exchange, JudgeUsage, Sample, Score, ToolCall, Usage
from evalspec.model.base import LARGEST_VALUE
from evalspec.model.log import LOG_RECORD, ReplyRecord, ScoresRecord, TextRecord, change_texts
from evalspec.runs.store.log_records import encode_record, read_log, renumber

# Any code point, half surrogate pairs included: Python's own JSON reader lets them into answers.
texts = st.text(st.characters(codec=None, exclude_categories=()), max_size=20)
json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | texts,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=6,
)
some_texts = st.none() | st.lists(texts, max_size=3).map(tuple)
counts = st.integers(min_value=0)
calls = st.builds(
    ToolCall, texts, json_values, st.none() | texts, st.just(UNSET) | json_values, st.none() | texts, st.none() | texts
)
replies = st.builds(
    AgentReply,
    response=texts,
    retrieved_contexts=some_texts,
    retrieved_context_ids=some_texts,
    tool_calls=st.none() | st.lists(calls, max_size=3).map(tuple),
    usage=st.none() | st.builds(Usage, counts, counts),
    latency_ms=st.none() | st.floats(min_value=0, max_value=LARGEST_VALUE),
    finish_reason=st.none() | texts | st.sampled_from(["stop", "MAX_TOKENS"]),
)
samples = st.builds(Sample, id=texts, user_input=texts)
exchanges = st.builds(Exchange, samples, reply=replies) | st.builds(
    Exchange, samples, error=texts, unreachable=st.booleans()
)
scores = (
    st.builds(Score.scored, st.floats(-1e100, 1e100), st.none() | texts, json_values)
    | st.builds(Score.failed, texts, st.sampled_from(Cause))
    | st.builds(Score.skipped, texts)
    | st.builds(Score.not_applicable, texts, st.sampled_from(Cause))
)


def written_and_read(record, folder):
    path = folder.getbasetemp() / "log.jsonl"
    path.write_bytes(encode_record(record, 1))
    assert path.read_bytes().startswith(b'{"kind":')
    ((line, back),) = read_log(path, LOG_RECORD)
    assert (line.place, line.at) == (0, 1)
    return back


@given(exchange=exchanges, dataset=texts, attempt=st.integers(1, 9))
def test_an_exchange_comes_back_as_it_was(exchange, dataset, attempt, tmp_path_factory):
    record = written_and_read(ReplyRecord.of(dataset, attempt, exchange), tmp_path_factory)
    assert (record.dataset, record.id, record.attempt) == (dataset, exchange.sample.id, attempt)
    assert record.to_exchange(exchange.sample) == exchange


def test_keys_of_other_versions_do_no_harm(tmp_path):
    line = encode_record(ReplyRecord("qa", "s", 1, AgentReply("Paris")), 1)
    line = line.replace(b'"dataset"', b'"mood":"\\ud83d","dataset"').replace(b'"response"', b'"n":1,"response"')
    (tmp_path / "log.jsonl").write_bytes(renumber(line, 1))
    [(_, record)] = read_log(tmp_path / "log.jsonl", LOG_RECORD)
    assert record == ReplyRecord("qa", "s", 1, AgentReply("Paris"))


usages = st.dictionaries(texts, st.builds(JudgeUsage, counts, counts, counts, counts, counts), max_size=2)


@given(given=st.dictionaries(texts, scores, max_size=3), names=st.tuples(texts, texts), usage=usages)
def test_scores_come_back_as_they_were(given, names, usage, tmp_path_factory):
    record = ScoresRecord(names[0], names[1], 2, given, usage)
    assert written_and_read(record, tmp_path_factory) == record


@given(exchange=exchanges, given=st.dictionaries(texts, scores, max_size=3))
def test_without_texts_only_what_was_measured_stays(exchange, given):
    record = ReplyRecord.of("qa", 1, exchange).without_texts("withheld")
    reply = record.reply or AgentReply("")
    assert reply.latency_ms == (exchange.reply.latency_ms if exchange.reply else None)
    assert not any((reply.response, reply.retrieved_contexts, reply.retrieved_context_ids, reply.tool_calls))
    assert not any((record.answer_digest, record.question_digest, record.request_digest))
    assert reply.finish_reason in (None, "stop", "MAX_TOKENS")
    assert record.error in (None, "withheld")
    kept = ScoresRecord("qa", "q", 1, given).without_texts("withheld").scores
    assert [(score.status, score.value) for score in kept.values()] == [(s.status, s.value) for s in given.values()]
    assert {score.reason for score in kept.values()} <= {None, "withheld"}
    assert not any(score.evidence_or_none for score in kept.values())


@given(exchange=exchanges, given=st.dictionaries(texts, scores, max_size=3))
def test_every_text_is_redacted_and_what_identifies_a_record_is_not(exchange, given):
    def blank(value):
        return "" if isinstance(value, str) else type(value)() if isinstance(value, list | dict) else value

    reply = change_texts(ReplyRecord.of("qa", 1, exchange), blank)
    assert (reply.dataset, reply.id, reply.attempt) == ("qa", exchange.sample.id, 1)
    assert reply.answer_digest == exchange.answer_digest
    if reply.reply:
        assert reply.reply.usage == exchange.reply.usage
        assert not reply.reply.response and not any(reply.reply.retrieved_contexts or ())
        assert not any(one.name or one.call_id or one.error or one.problem for one in reply.reply.tool_calls or ())
    else:
        assert reply.error == ""
    changed = change_texts(ScoresRecord("qa", "q", 1, given), blank).scores
    assert changed.keys() == given.keys()
    assert {score.reason for score in changed.values()} <= {None, ""}
    assert not any(isinstance(score.evidence, str | list | dict) and score.evidence for score in changed.values())


def test_readable_text_is_stored_readable_and_half_a_surrogate_pair_as_an_escape():
    assert "né 日本".encode() in encode_record(TextRecord("x", "né 日本"), 1)
    line = encode_record(TextRecord("x", "né \ud83d"), 1)
    assert line.isascii()
    assert json.loads(line)["text"] == "né \ud83d"


@pytest.mark.parametrize("evidence", [float("nan"), object(), {1: {2, 3}}])
def test_what_json_cannot_say_is_named(evidence):
    with pytest.raises(StoreError, match="the ScoresRecord of qa / q-1 cannot be stored as JSON"):
        encode_record(ScoresRecord("qa", "q-1", 1, {"cites": Score.scored(1, evidence=evidence)}), 1)


def text_line(number):
    return encode_record(TextRecord(str(number), ""), number)


def test_only_a_last_line_without_its_newline_is_passed_over(tmp_path):
    log = tmp_path / "samples.jsonl"
    log.write_bytes(text_line(1) + text_line(2)[:-1])
    assert [record.digest for _, record in read_log(log, TextRecord)] == ["1"]


@pytest.mark.parametrize(
    "bad",
    [b"{torn\n", b"[1]\n", b'{"kind": "other"}\n', b'\xff"kind"\n', b"\n", b"[" * 5000 + b"\n"],
)
@pytest.mark.parametrize("sealed", [True, False])
def test_any_other_bad_line_is_an_error_with_its_place(bad, sealed, tmp_path):
    log = tmp_path / "samples.jsonl"
    log.write_bytes(text_line(1) + (renumber(bad[:-2] + b"}\n", 2) if sealed else bad) + text_line(3))
    records: Iterator[tuple[Any, Any]] = read_log(log, LOG_RECORD)
    assert next(records)[1].digest == "1"
    said = "not a record of a run" if sealed else "damaged"
    with pytest.raises(StoreError, match=rf"samples\.jsonl:2: {said}"):
        next(records)


def test_a_log_that_cannot_be_read_is_a_store_error(tmp_path):
    with pytest.raises(StoreError, match="No such file"):
        list(read_log(tmp_path / "samples.jsonl", LOG_RECORD))


@pytest.mark.parametrize(
    ("score", "said"),
    [
        ({"status": "scored", "value": 1.0, "reason": 7}, "Expected `str | null`, got `int`"),
        ({"status": "scored", "value": None}, "cannot have the value None"),
    ],
)
def test_a_malformed_record_is_named(score, said, tmp_path):
    record = {"kind": "scores", "dataset": "qa", "id": "q-1", "attempt": 1, "scores": {"faithfulness": score}}
    (tmp_path / "log.jsonl").write_bytes(renumber(json.dumps(record).encode() + b"\n", 1))
    with pytest.raises(StoreError) as refused:
        list(read_log(tmp_path / "log.jsonl", LOG_RECORD))
    assert "log.jsonl:1: not a record of a run: " in str(refused.value)
    assert said in str(refused.value)
