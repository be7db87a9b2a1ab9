"""Anthropic's messages as a judge: each request complies with the published schema, each ending means one thing."""

import pytest

import evalspec
from agentspec_guide import AGENTSPEC_GUIDE
from evalspec.base.errors import JudgeError
from evalspec.scoring.judge.usage import JudgeListener
from judge.test_chat import Asking
from judge.test_providers import ANSWER, CORPUS, SAMPLE
from servers.anthropic_judge import MODEL, AnthropicJudge
from servers.judge_wires import KEY
from servers.scripted_judge import throttled

THINKING = "Thinking may not be enabled when tool_choice forces tool use."


def ask(judge: AnthropicJudge, **config) -> Asking:
    return Asking(judge.url, wire="anthropic", **({"model": MODEL, "api_key": KEY} | config))


@pytest.fixture
def judge():
    with AnthropicJudge() as judge:
        yield judge
    assert judge.complaints == []


def test_what_is_sent_and_counted(judge):
    asking = ask(judge, temperature=0.5, max_tokens=77)
    assert asking() == [{"reason": "by the script", "value": "good"}]
    [request] = judge.chats
    assert request.headers["x-api-key"] == KEY and "authorization" not in request.headers
    [system] = request.body["system"]
    assert system["cache_control"] == {"type": "ephemeral"} and "JSON Schema" in system["text"]
    assert (request.body["temperature"], request.body["max_tokens"]) == (0.5, 77)
    total = asking.ledger.total
    assert (total.calls, total.input_tokens, total.cached_input_tokens) == (1, 3 + 2 + 7, 7)
    assert total.cache_write_input_tokens == 2


def test_the_seed_passes_in_a_run_and_its_fingerprint_names_the_wire(tmp_path, judge):
    (tmp_path / "evals").mkdir()
    for name in ("rag", "safety", "accuracy"):
        (tmp_path / "evals" / f"{name}.jsonl").write_text(SAMPLE, encoding="utf-8")
    (tmp_path / "agent.yaml").write_text(AGENTSPEC_GUIDE, encoding="utf-8")
    judge.corpus, judge.refused = CORPUS, {"temperature": "`temperature` is deprecated for this model."}
    config = {"wire": "anthropic", "model": MODEL, "baseUrl": judge.url, "apiKey": KEY}
    store = tmp_path / "store"
    run = evalspec.evaluate(tmp_path / "agent.yaml", agent=lambda _question: ANSWER, judge=config, store=store)
    assert (run.verdict, run.exit_code) == ("PASS", 0), run.reasons
    assert run.fingerprint.judge.wire == "anthropic" and list(run.fingerprint.judge_models.values()) == [
        f"{MODEL}-20260901"
    ]
    assert run.fingerprint.judge_refused == {"temperature": "left out"} and len(judge.refusals) == 1


@pytest.mark.parametrize(
    ("refused", "sent", "instead"),
    [  # the second: neither way to request JSON
        ({"tool_choice": THINKING}, {"output_config"}, "json_schema"),
        ({"tools": "tools: not supported", "output_config": "output_config: not permitted"}, set(), None),
    ],
)  # fmt: skip
def test_a_refused_form_is_replaced_once(judge, refused, sent, instead):
    learnt = {}
    judge.refused = refused
    asking = ask(judge, listener=JudgeListener(learns=learnt.update), temperature=0.0)
    assert [answer["value"] for answers in asking.waves(2, 2) for answer in answers] == ["good"] * 4
    assert learnt["judge_refused"] == {"response_format": f"sent as {instead}" if instead else "left out"}
    assert len(judge.refusals) == len(refused)
    assert all({"tools", "output_config"} & set(chat.body) == sent for chat in judge.chats)


@pytest.mark.parametrize(
    ("mode", "says"),
    [
        ("prose", "it is not a JSON object; the judge wrote 'It is rather"),
        ("refusal", "the judge refused to answer: 'refusal'"),
        ("twice", "it has 2 JSON objects; the judge wrote"),
        ("paused", "the judge's answer is incomplete: finish_reason 'pause_turn'"),
        ("truncated", "increase spec.evaluation.judge.maxTokens"),
        ("not_a_message", "answered without choices"),
        (throttled(3600), "it asks to wait 3600 s, more than the limit of 120 s"),
    ],
)
def test_each_ending_that_is_no_answer_is_one_line(judge, mode, says):
    judge.mode = mode
    assert says in ask(judge).failure()


def test_overload_truncation_and_an_empty_answer_are_tried_again(judge):
    judge.script = ["overloaded", "empty", "text"]
    assert ask(judge, max_retries=2)()[0]["value"] == "good"
    assert [turn["role"] for turn in judge.chats[-1].body["messages"]] == ["user", "user"]
    judge.chats.clear()
    judge.mode = "truncated_once"
    assert ask(judge, max_tokens=50)()[0]["value"] == "good"
    assert [chat.body["max_tokens"] for chat in judge.chats] == [50, 100]


def test_calls_that_contradict_each_other_are_repaired_and_equal_ones_are_one(judge):
    judge.script = ["twice", "same_twice"]
    assert ask(judge, max_retries=1)()[0]["value"] == "good"
    assert "it has 2 JSON objects" in str(judge.chats[1].body["messages"][-1])


def test_a_wrong_key_and_a_missing_model_are_one_request(judge):
    assert "check spec.evaluation.judge.apiKey" in ask(judge, api_key="wrong-key-0123").failure()
    [first, *_] = ask(judge, model="claude-0", concurrency=4)(6)
    assert isinstance(first, JudgeError)
    assert "has no model 'claude-0'; set spec.evaluation.judge.model to one that GET" in str(first)
    assert judge.chats == []


@pytest.mark.parametrize(
    ("config", "says"),
    [
        ({"wire": "anthropic"}, "the defaults of model and baseUrl are not for wire anthropic. add both"),
        ({"wire": "antropic", "model": "m", "baseUrl": "http://localhost/v1"}, "unknown judge wire 'antropic'"),
        (
            {"wire": "anthropic", "model": "m", "baseUrl": "http://localhost/v1", "responseFormat": "json_object"},
            "wire anthropic has no response format json_object. use auto, json_schema or none",
        ),
    ],
)
def test_a_wrong_wire_is_reported_before_the_first_request(project, config, says):
    project.evaluation["judge"] = config
    project.dataset("qa", [{"input": "Who pays?", "expected": "You."}], metrics=["answer_relevancy"])
    outcome = project.evaluate("--dry-run", "--url", "http://localhost:9")
    assert outcome.code == 2 and says in " ".join(outcome.err.split())


def test_an_unknown_wire_is_refused_by_validate(project):
    project.samples(1, metrics=("faithfulness",), context=["a"])
    project.evaluation["judge"] = {"wire": "antropic", "model": "m", "baseUrl": "http://127.0.0.1:9"}
    outcome = project.validate()
    assert outcome.code == 2
    assert "spec.evaluation.judge.wire: unknown judge wire 'antropic'. did you mean 'anthropic'?" in outcome.out
