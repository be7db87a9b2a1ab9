import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import convert

from evalspec.base.errors import StoreError
from evalspec.model import AgentReply, Cause, Exchange, JudgeUsage, Sample, Score, Usage
from evalspec.model.base import LARGEST_VALUE
from evalspec.runs.store.log_records import (
    encode_record,
    parse_reply_record,
    parse_scores_record,
    read_log,
    reply_record,
    scores_record,
    without_texts,
)

# Any code point, half surrogate pairs included: Python's own JSON reader lets them into answers.
texts = st.text(st.characters(codec=None, exclude_categories=()), max_size=20)
json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | texts,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=6,
)
some_texts = st.none() | st.lists(texts, max_size=3).map(tuple)
counts = st.integers(min_value=0)
replies = st.builds(
    AgentReply,
    response=texts,
    retrieved_contexts=some_texts,
    retrieved_context_ids=some_texts,
    tool_calls=st.none() | st.lists(json_values, max_size=3).map(tuple),
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


def written_and_read(record, path):
    path.write_bytes(encode_record(record, 1))
    ((place, back),) = read_log(path)
    assert (place, back.pop("number"), len(back.pop("crc"))) == (0, 1, 8)
    return back


@given(exchange=exchanges, dataset=texts, attempt=st.integers(1, 9))
def test_an_exchange_comes_back_as_it_was(exchange, dataset, attempt, tmp_path_factory):
    record = written_and_read(reply_record(dataset, attempt, exchange), tmp_path_factory.getbasetemp() / "log.jsonl")
    assert next(iter(record)) == "kind"
    assert (record["dataset"], record["id"], record["attempt"]) == (dataset, exchange.sample.id, attempt)
    assert parse_reply_record(record, exchange.sample) == exchange


def test_keys_of_other_versions_do_no_harm():
    record = reply_record("qa", 1, Exchange(Sample("s", "q"), AgentReply("Paris", finish_reason="stop")))
    del record["finishReason"]
    assert parse_reply_record({**record, "mood": "good"}, Sample("s", "q")).reply == AgentReply("Paris")


usages = st.dictionaries(texts, st.builds(JudgeUsage, counts, counts, counts, counts, counts), max_size=2)


@given(given=st.dictionaries(texts, scores, max_size=3), names=st.tuples(texts, texts), usage=usages)
def test_scores_come_back_as_they_were(given, names, usage, tmp_path_factory):
    record = written_and_read(scores_record(*names, 2, given, usage), tmp_path_factory.getbasetemp() / "log.jsonl")
    assert next(iter(record)) == "kind"
    assert (record["dataset"], record["id"], record["attempt"]) == (*names, 2)
    assert parse_scores_record(record) == given
    assert convert(record["judgeUsage"], dict[str, JudgeUsage]) == usage


@given(exchange=exchanges, given=st.dictionaries(texts, scores, max_size=3))
def test_without_texts_only_what_was_measured_stays(exchange, given):
    reply = without_texts(reply_record("qa", 1, exchange))
    assert reply["latencyMs"] == (exchange.reply.latency_ms if exchange.reply else None)
    assert not any(reply[key] for key in ("response", "retrievedContexts", "retrievedContextIds", "toolCalls"))
    assert reply["finishReason"] in (None, "stop", "MAX_TOKENS")
    assert reply["error"] in (None, "withheld (--no-content)")
    kept = parse_scores_record(without_texts(scores_record("qa", "q", 1, given, {})))
    assert [(score.status, score.value) for score in kept.values()] == [(s.status, s.value) for s in given.values()]
    assert {score.reason for score in kept.values()} <= {None, "withheld (--no-content)"}
    assert not any(score.evidence for score in kept.values())


def test_readable_text_is_stored_readable_and_half_a_surrogate_pair_as_an_escape():
    assert "né 日本".encode() in encode_record({"kind": "x", "text": "né 日本"}, 1)
    line = encode_record({"kind": "x", "text": "né \ud83d"}, 1)
    assert line.isascii()
    assert json.loads(line)["text"] == "né \ud83d"


@pytest.mark.parametrize("evidence", [float("nan"), object(), {1: {2, 3}}])
def test_what_json_cannot_say_is_named(evidence):
    with pytest.raises(StoreError, match="the scores record of qa / q-1 cannot be stored as JSON"):
        encode_record(scores_record("qa", "q-1", 1, {"cites": Score.scored(1, evidence=evidence)}, {}), 1)


def test_only_a_last_line_without_its_newline_is_passed_over(tmp_path):
    log = tmp_path / "samples.jsonl"
    whole = encode_record({"kind": "scores", "id": "1"}, 1)
    log.write_bytes(whole + whole[:-1])
    assert [record["id"] for _, record in read_log(log)] == ["1"]


@pytest.mark.parametrize(
    "bad",
    [b"{torn\n", b"[1]\n", b'{"kind": "other"}\n', b'\xff"kind"\n', b"\n", b"[" * 5000 + b"\n"],
)
def test_any_other_bad_line_is_an_error_with_its_place(bad, tmp_path):
    log = tmp_path / "samples.jsonl"
    whole = encode_record({"kind": "scores", "id": "1"}, 1)
    log.write_bytes(whole + bad + encode_record({"kind": "scores", "id": "3"}, 3))
    records = read_log(log)
    assert next(records)[1]["id"] == "1"
    with pytest.raises(StoreError, match=r"samples\.jsonl:2: damaged"):
        next(records)


def test_a_log_that_cannot_be_read_is_a_store_error(tmp_path):
    with pytest.raises(StoreError, match="No such file"):
        list(read_log(tmp_path / "samples.jsonl"))


def test_a_malformed_record_is_named():
    record = scores_record("qa", "q-1", 1, {"faithfulness": Score.scored(1.0)}, {})
    record["scores"]["faithfulness"]["reason"] = 7
    with pytest.raises(StoreError, match=r"scores record of qa / q-1 is malformed: Expected `str \| null`, got `int`"):
        parse_scores_record(record)
    record["scores"]["faithfulness"] |= {"reason": None, "value": None}
    with pytest.raises(StoreError, match="cannot have the value None"):
        parse_scores_record(record)
