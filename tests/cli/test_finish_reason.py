"""Replies that were cut off: counted, gated, and shown by every report of the run."""

import json

import pytest

from conftest import without_few
from servers.faulty_agent import FaultyAgent, chunk, sse

LENGTH = "qa: 2 of 4 replies were cut off (finish_reason length)"


@pytest.fixture
def ending(project, agent):
    """Four samples asked of an openai-compatible agent; each question is the finish reason of its reply."""

    def reply(body):
        reason = body["messages"][-1]["content"]
        return {"choices": [{"message": {"content": "Paris"}, "finish_reason": None if reason == "none" else reason}]}

    agent.reply = reply
    project.api = {"url": agent.url, "chatEndpoint": {"protocol": "openai-compatible"}}
    return project


def ask(project, *reasons, metrics=("string_match",)):
    lines = [{"id": f"s{n}", "input": reason} for n, reason in enumerate(reasons)]
    project.dataset("qa", lines, metrics=list(metrics))


def words(text):
    return " ".join(text.split())


def test_every_report_says_how_many_replies_were_cut_off(ending):
    ask(ending, "length", "stop", "none", "length")
    outcome = ending.evaluate("--json", "-o", "out.jsonl", "-o", "out.md", "-o", "out.html")
    assert without_few(outcome.document["notes"]) == [LENGTH]
    reasons = ["length", "stop", None, "length"]
    assert [sample["finishReason"] for sample in outcome.document["datasets"][0]["samples"]] == reasons
    lines = (ending.folder / "out.jsonl").read_text().splitlines()
    assert [json.loads(line)["finish_reason"] for line in lines] == reasons
    assert all(LENGTH in (ending.folder / f"out.{form}").read_text() for form in ("md", "html"))
    again = ending("report", "latest", "--json")
    assert again.document == outcome.document
    assert LENGTH in words(ending("report").out)


def test_reasons_are_counted_apart_and_attempts_one_by_one(ending):
    ask(ending, "length", "content_filter", "stop")
    outcome = ending.evaluate("--json", "--repeat", "2")
    assert without_few(outcome.document["notes"]) == [
        "qa: 4 of 6 replies were cut off (finish_reason length 2, content_filter 2)"
    ]
    first = outcome.document["datasets"][0]["samples"][0]
    assert first["finishReason"] is None
    assert [attempt["finishReason"] for attempt in first["attempts"]] == ["length", "length"]


def test_a_threshold_alone_gates_it(ending):
    ask(ending, "length", "stop", "none", "stop", "stop")
    ending.evaluation |= {"thresholds": {"truncated_rate": 0.2}, "ciGate": True}
    outcome = ending.evaluate("--json")
    metric = outcome.document["datasets"][0]["metrics"]["truncated_rate"]
    assert (outcome.code, metric["value"], metric["scored"], metric["notApplicable"]) == (1, 0.25, 4, 1)
    ending.evaluation["thresholds"]["truncated_rate"] = 0.25
    assert ending("rescore", "latest", str(ending.write()), "--json").code == 0


def test_where_no_reply_gives_a_finish_reason_the_limit_is_not_decided(ending):
    ask(ending, "none", "none")
    ending.evaluation |= {"thresholds": {"truncated_rate": 0}, "ciGate": True}
    assert ending.evaluate().code == 3


def test_a_streamed_reply_that_was_cut_off(ending, agent):
    ask(ending, "?")
    agent.mode = sse(chunk("Pa"), chunk(finish="length"), "[DONE]")
    assert without_few(ending.evaluate("--json").document["notes"]) == [
        "qa: 1 of 1 replies was cut off (finish_reason length)"
    ]


def test_without_content_only_known_words_are_kept(ending):
    ask(ending, "length", "a text of the agent")
    outcome = ending.evaluate("--json", "--no-content")
    assert [sample["finishReason"] for sample in outcome.document["datasets"][0]["samples"]] == ["length", None]
    written = [path.read_text() for path in ending.folder.rglob(".evalspec/**/*.json*")]
    assert not any("a text of the agent" in text for text in written)
    assert ending("report", "--json").document["datasets"] == outcome.document["datasets"]


def test_a_resumed_run_counts_what_it_had(ending, agent):
    ask(ending, "length", "stop", "length", "stop")
    agent.die_after = 3
    ending.api["chatEndpoint"]["maxRetries"] = 0
    ending.evaluate("-j", "1")
    assert "qa: 2 of 3 replies were cut off" in words(ending("report").out)
    with FaultyAgent(int(agent.url.rsplit(":", 1)[1])) as revived:
        revived.reply = agent.reply
        outcome = ending("evaluate", "agent.yaml", "--resume", "--json")
    assert len(revived.requests) == 1
    assert without_few(outcome.document["notes"]) == [LENGTH]


def test_a_recorded_reply_may_give_one(ending):
    ask(ending, "?", "?")
    recorded = [
        {"id": "s0", "input": "?", "response": "Paris", "finish_reason": "length"},
        {"id": "s1", "input": "?", "response": "Paris", "finish_reason": "\ud83d" + "x" * 500},
    ]
    (ending.folder / "replies.jsonl").write_text("\n".join(map(json.dumps, recorded)))
    outcome = ending.evaluate("--responses", "replies.jsonl", "--json")
    assert without_few(outcome.document["notes"]) == ["qa: 1 of 2 replies was cut off (finish_reason length)"]
    assert outcome.document["datasets"][0]["samples"][1]["finishReason"] == "x" * 79
    assert ending("report", "--json").document == outcome.document


def test_a_retriever_gives_no_finish_reason(project):
    (project.folder / "docs.jsonl").write_text('{"id": "d1", "text": "Paris"}\n')
    project.dataset(
        "qa", [{"id": "s", "relevant": ["d1"]}], metrics=["Recall@1"], retriever="bm25", corpus="docs.jsonl"
    )
    project.evaluation |= {"retrievers": {"bm25": {"builtin": "bm25"}}, "thresholds": {"truncated_rate": 0}}
    outcome = project.validate()
    assert outcome.code == 2
    assert "truncated_rate scores an answer, but the retriever 'bm25' returns only documents" in outcome.out
