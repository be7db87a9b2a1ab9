"""Recorded replies: real files, every bad line named."""

import json
from pathlib import Path

import pytest

from evalspec.base.errors import InvalidInput
from evalspec.model import AgentReply, Exchange, Sample, Usage
from evalspec.targets.agents.replay import RecordedReply, list_unknown_replies, load_replies, replay


@pytest.fixture
def write(tmp_path: Path):
    def write_lines(*lines: object) -> Path:
        path = tmp_path / "replies.jsonl"
        texts = [line if isinstance(line, str) else json.dumps(line) for line in lines]
        path.write_text("\n".join(texts), encoding="utf-8")
        return path

    return write_lines


def problems(path: Path) -> list[str]:
    with pytest.raises(InvalidInput) as caught:
        load_replies(path, "replies.jsonl")
    return [problem.render() for problem in caught.value.problems]


def test_replies_in_full_and_in_part(write):
    full = {
        "id": "s1",
        "response": "Paris",
        "retrieved_contexts": ["one", "two"],
        "retrieved_context_ids": ["d1", 2],
        "latencyMs": 12,
        "usage": {"prompt_tokens": 3, "completion_tokens": 4},
        "finish_reason": "length",
    }
    path = write("\ufeff" + json.dumps(full), "", {"id": "s2", "retrieved_context_ids": [], "response": None})
    found = AgentReply("Paris", ("one", "two"), ("d1", "2"), None, Usage(3, 4), 12.0, finish_reason="length")
    assert load_replies(path, "replies.jsonl") == {
        ("", "s1"): RecordedReply(found, line=1),
        ("", "s2"): RecordedReply(AgentReply("", None, ()), line=3, has_response=False),
    }


def test_every_bad_line_is_named_at_once(write):
    path = write(
        {"id": "s1", "response": "Paris"},
        "{",
        {"id": "s1", "response": "London"},
        {"response": "Paris"},
        {"id": "s4", "responze": "Paris"},
        {"id": "s5", "response": 5},
        {"id": "s6", "retrieved_contexts": ["one", 2]},
        {"id": "s7", "retrieved_contexts": ["one"], "retrieved_context_ids": ["d1", "d2"]},
        '{"id": "s8", "response": "x", "latencyMs": NaN}',
        {"id": "s9", "response": "x", "latencyMs": -1, "usage": {"tokens": 5}},
        ["s10"],
        {"id": True, "response": "x"},
    )
    assert problems(path) == [
        "replies.jsonl:2: not valid JSON at column 2: Expecting property name enclosed in double quotes",
        "replies.jsonl:3: id: duplicate reply for 's1', first in line 1. remove one of them",
        "replies.jsonl:4: id: this key is required. add the id of the sample that was answered",
        "replies.jsonl:5: responze: unknown key 'responze'. did you mean 'response'?",
        "replies.jsonl:5: the line has no reply. add response or retrieved_contexts or retrieved_context_ids "
        "or tool_calls or turns",
        "replies.jsonl:6: response: '5' is not accepted here. it should be text",
        """replies.jsonl:7: retrieved_contexts: '["one", 2]' is not accepted here. it should be a list of texts""",
        "replies.jsonl:8: retrieved_context_ids: 2 ids for 1 contexts. give one id per context",
        "replies.jsonl:9: NaN is not JSON",
        "replies.jsonl:10: latencyMs: '-1' is not accepted here. it should be milliseconds, 0 or more",
        """replies.jsonl:10: usage: '{"tokens": 5}' is not accepted here. """
        'it should be {"input_tokens": …, "output_tokens": …}',
        'replies.jsonl:11: the line is not a JSON object. write {"id": …, "response": …}',
        "replies.jsonl:12: id: 'true' is not accepted here. it should be text",
    ]


def test_a_file_of_other_keys_is_explained_once(write):
    path = write(*({"id": f"s{number}", "answer": "Paris"} for number in range(1000)))
    found = problems(path)
    assert found[0] == "replies.jsonl:1: answer: unknown key 'answer'. did you mean 'response'?"
    assert (len(found), found[-1]) == (21, "replies.jsonl: and 1,980 more problems")


@pytest.mark.parametrize("huge", ["1e999", "1" + "0" * 400])
def test_a_latency_beyond_all_numbers(write, huge):
    assert len(problems(write(f'{{"id": "s1", "response": "x", "latencyMs": {huge}}}'))) == 1


def test_files_that_cannot_be_read(write, tmp_path):
    assert "no such file" in problems(tmp_path / "absent.jsonl")[0]
    assert "cannot be read" in problems(tmp_path)[0]
    assert len(problems(write("", ""))) == 1
    path = tmp_path / "latin.jsonl"
    path.write_bytes('{"id": "s1", "response": "Zürich"}'.encode("latin-1"))
    assert "replies.jsonl:1: not UTF-8" in problems(path)[0]


def test_a_recorded_reply_is_the_answer_and_a_missing_one_a_failure(write):
    replies = load_replies(write({"id": "s1", "response": "Paris"}), "replies.jsonl")
    answered, unanswered = Sample("s1", "Where?"), Sample("s2", "Where?")
    assert replay(replies, "qa", answered) == Exchange(answered, AgentReply("Paris"))
    assert replay(replies, "qa", unanswered) == Exchange(unanswered, error="there is no recorded reply")


def test_ids_without_a_sample(write):
    replies = load_replies(write(*({"id": name, "response": ""} for name in ("c", "a", "b"))), "replies.jsonl")
    assert list_unknown_replies(replies, [("qa", "a")]) == ["c", "b"]
