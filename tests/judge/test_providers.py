"""Each provider's stand-in, reached by what docs/how-to/judges.md says to write for it."""

import dataclasses
import json
import re
from collections.abc import Mapping
from pathlib import Path

import pytest
import yaml

import evalspec
from agentspec_guide import AGENTSPEC_GUIDE
from evalspec.base.errors import JudgeError, ServiceError
from evalspec.cli.run_session import ProgressLines
from evalspec.inputs.manifest.judge_schema import JudgeConfig
from evalspec.model import Run, VerdictStatus
from evalspec.scoring.judge.refusals import lacks_model, list_refused
from evalspec.scoring.judge.usage import JudgeListener
from evalspec.verdict.comparison.comparability import list_metric_mismatches
from fingerprints import as_fingerprint
from judge.test_chat import Asking
from servers.judge_wires import (
    ANTHROPIC,
    AZURE_CLASSIC,
    AZURE_V1,
    KEY,
    LM_STUDIO,
    OPENAI,
    WIRES,
    Wire,
    bare_error,
    gemini_error,
    litellm_error,
    openai_error,
    openrouter_error,
)
from servers.scripted_judge import ScriptedJudge, status, throttled

DOCS = (Path(__file__).parents[2] / "docs" / "how-to" / "judges.md").read_text(encoding="utf-8")
LIMIT = {"max_tokens": "sent as max_completion_tokens"}
INSTEAD = {
    AZURE_CLASSIC.name: {**LIMIT, "temperature": "left out"},
    AZURE_V1.name: {**LIMIT, "temperature": "left out"},
    ANTHROPIC.name: {"response_format": "sent as json_schema", "temperature": "left out"},
}
"""What a provider's endpoint refuses, with the settings of the page."""

QUESTION, ANSWER = "How long is the trial?", "The trial of the product lasts 21 days."
SAMPLE = (
    f'{{"input": "{QUESTION}", "expected": "{ANSWER}", "context": ["{ANSWER}"], "reference_contexts": ["{ANSWER}"]}}'
)
CORPUS = [{"id": "trial", "title": QUESTION, "text": ANSWER}]


def read_block(heading: str) -> dict:
    """The first YAML block of a section of the page."""
    section = re.search(rf"^## {re.escape(heading)}\n.*?```yaml\n(.*?)```", DOCS, re.DOTALL | re.MULTILINE)
    return yaml.safe_load(section[1])


def written_for(wire: Wire, judge: ScriptedJudge) -> dict:
    """The block of the page for a provider, at the stand-in's host."""
    config = read_block(wire.name)["judge"]
    host = re.match(r"http://[^/]+", judge.base_url)[0]
    return {**config, "baseUrl": re.sub(r"^https?://[^/]+", host, config.get("baseUrl", "https://api.openai.com/v1"))}


@pytest.fixture
def seed(tmp_path, monkeypatch):
    """The judged block of AgentSpec's guide, with a sample for each dataset."""
    for variable in ("OPENAI", "AZURE_OPENAI", "ANTHROPIC", "GEMINI"):
        monkeypatch.setenv(f"{variable}_API_KEY", KEY)
    (tmp_path / "evals").mkdir()
    for name in ("rag", "safety", "accuracy"):
        (tmp_path / "evals" / f"{name}.jsonl").write_text(SAMPLE, encoding="utf-8")
    (tmp_path / "agent.yaml").write_text(AGENTSPEC_GUIDE, encoding="utf-8")
    return tmp_path


@pytest.mark.parametrize("wire", WIRES, ids=lambda wire: wire.name)
def test_the_judged_block_of_the_seed_passes_with_what_the_page_says(wire, seed):
    with ScriptedJudge(CORPUS, wire=wire) as judge:
        manifest, store = seed / "agent.yaml", seed / "store"
        config = written_for(wire, judge)
        run = evalspec.evaluate(manifest, agent=lambda _question: ANSWER, judge=config, store=store)
    assert (run.verdict, run.exit_code) == ("PASS", 0), run.reasons
    refused = INSTEAD.get(wire.name, {})
    assert len(judge.refusals) == len(refused)  # one request for each, although eight may be in flight
    assert run.fingerprint.judge_refused == refused
    assert [note for note in run.notes if "refused" in note] == (
        [
            "the judge's endpoint refused parameters: "
            + ", ".join(f"{name} ({said})" for name, said in sorted(refused.items()))
        ]
        if refused
        else []
    )
    stored = "".join(path.read_text(encoding="utf-8", errors="replace") for path in store.rglob("*") if path.is_file())
    assert KEY not in stored
    assert all(f'"{name}": "{said}"' in stored for name, said in refused.items())


@pytest.mark.parametrize("wire", WIRES, ids=lambda wire: wire.name)
def test_a_missing_model_is_one_request_and_says_how_to_choose_another(wire):
    with ScriptedJudge(wire=wire) as judge:
        headers = {"api-key": KEY} if wire is AZURE_CLASSIC else {}
        asking = Asking(judge.base_url, model="gpt-0", api_key=KEY, headers=headers, max_retries=3, concurrency=4)
        [first, *others] = asking(6)
    assert isinstance(first, JudgeError) and first.fatal
    line = str(first)
    assert {str(error) for error in others} == {line}
    assert len(judge.refusals) == 1
    assert "has no model 'gpt-0'" in line and KEY not in line and "\n" not in line
    if wire is AZURE_CLASSIC:
        assert "name one of your deployments in spec.evaluation.judge.baseUrl" in line
    else:
        assert "set spec.evaluation.judge.model to one that GET http://127.0.0.1" in line
        assert f"{wire.path}/models lists" in line


def test_headers_replace_the_key_and_are_not_quoted():
    with ScriptedJudge(wire=OPENAI) as judge:
        asking = Asking(judge.base_url, headers={"Authorization": "Bearer wrong-0123", "X-Team": " search "})
        assert "provided: [redacted]" in asking.failure()
        Asking(judge.base_url, model=OPENAI.model, headers={"AUTHORIZATION": f"Bearer {KEY}", "X-Team": "search"})()
        assert judge.chats[0].headers["x-team"] == "search"


@pytest.mark.parametrize("said", ["{}", "{:20.20}...", "no, {} is wrong", "%70ass&#32;" + "x" * 120 + "{}"])
def test_a_rejected_key_with_spaces_is_hidden_whole(said):
    key = "pass phrase of 4 Words"
    with ScriptedJudge() as judge:
        judge.mode = status(401, {}, said.format(key))
        line = Asking(judge.url, api_key=key).failure()
    assert "phrase" not in line and "Words" not in line and "[redacted]" in line


def test_embeddings_at_azure_take_the_key_in_a_header_of_its_own_and_no_file_has_it(project, monkeypatch):
    monkeypatch.setenv("AZURE_OPENAI_API_KEY", KEY)
    config = read_block("Embeddings")["embeddings"]
    path = re.sub(r"^https://[^/]+", "", config["baseUrl"])
    with ScriptedJudge(wire=dataclasses.replace(AZURE_CLASSIC, path=path)) as judge:
        project.evaluation["embeddings"] = config | {"baseUrl": judge.base_url}
        project.dataset("qa", [{"id": "s"}], metrics=["answer_similarity"], thresholds={"answer_similarity": 0.9})
        (project.folder / "r.jsonl").write_text(f'{{"id": "s", "response": "Paris. {KEY}"}}')
        passed = project.evaluate("--responses", "r.jsonl", "--json", "-o", "report.html")
        assert passed.code == 0, passed
        assert judge.embeddings[0].headers["api-key"] == KEY and "authorization" not in judge.embeddings[0].headers
        assert_nowhere(KEY, passed, project.folder)
        (project.folder / "r.jsonl").write_text('{"id": "s", "response": "Paris."}')
        monkeypatch.setenv("AZURE_OPENAI_API_KEY", "wrong-key-0123")
        refused = project.evaluate("--responses", "r.jsonl")
    assert refused.code == 3 and "check spec.evaluation.embeddings.headers" in " ".join(refused.out.split())
    assert_nowhere("wrong-key-0123", refused, project.folder)


def assert_nowhere(key, outcome, folder):
    """Neither the output of a run nor its files have the key; only the recorded replies may."""
    files = [path for path in folder.rglob("*") if path.is_file() and path.name != "r.jsonl"]
    assert len(files) > 5
    assert key not in outcome.out + outcome.err
    assert not [path for path in files if key in path.read_text(encoding="utf-8")]


def test_parameters_are_sent_and_null_drops_one():
    with ScriptedJudge() as judge:
        Asking(judge.url, parameters={"seed": 7, "temperature": None, "max_tokens": None}, response_format="none")()
        Asking(judge.url, model="gpt-6-luna", parameters={"temperature": 0.2, "response_format": None})()
    kept = [{key: value for key, value in chat.body.items() if key != "messages"} for chat in judge.chats]
    assert kept == [
        {"model": "scripted", "seed": 7},
        {"model": "gpt-6-luna", "temperature": 0.2, "max_completion_tokens": 4096},
    ]


def test_a_json_schema_is_closed_and_named():
    with ScriptedJudge() as judge:
        Asking(judge.url, response_format="json_schema")()
    [chat] = judge.chats
    described = chat.body["response_format"]["json_schema"]
    assert described == {"name": "answer", "schema": {"properties": {"value": {"enum": ["good", "bad"]}}}}


def test_a_format_that_no_provider_has_is_left_out():
    wire = Wire(name="plain", path="/v1", model="m", missing="", formats=(), format_message=LM_STUDIO.format_message)
    with ScriptedJudge(wire=wire) as judge:
        assert Asking(judge.base_url, model="m", api_key=KEY).waves(3, 3)
        assert [body.get("response_format", {}).get("type") for body in judge.refusals] == [
            "json_object",
            "json_schema",
        ]
        assert all("response_format" not in chat.body for chat in judge.chats)


TEMPERATURE = {
    "LiteLLM": (litellm_error, "litellm.UnsupportedParamsError: openai does not support parameters: ['temperature'], "
        "for model=o1-mini. To drop these, set `litellm.drop_params=True` or for proxy:\n\n`litellm_settings:\n "
        "drop_params: true`\n"),
    "LiteLLM, a mapping": (litellm_error, "openai does not support parameters: {'top_p': 1, 'temperature': 0}, for "
        "model=o1-mini. To drop these, set litellm.drop_params=True"),
    "LiteLLM, gpt-5": (litellm_error, "litellm.UnsupportedParamsError: gpt-5 models (including gpt-5-codex) don't "
        "support temperature=0.0. Only temperature=1 is supported. For gpt-5.1, temperature is supported when "
        "reasoning_effort='none' (or not specified, as it defaults to 'none'). To drop unsupported params set "
        "`litellm.drop_params = True`"),
    "LiteLLM, reasoning": (litellm_error, "litellm.UnsupportedParamsError: gpt-5-nano doesn't support temperature=0.1 "
        "while reasoning is active. Only temperature=1 is supported unless reasoning_effort resolves to 'none', either "
        "set explicitly on the request or declared as the model's default_reasoning_effort. To drop unsupported params "
        "set `litellm.drop_params = True`"),
    "LiteLLM, nested": (litellm_error, "litellm.BadRequestError: BedrockException - {\"message\":\"This model doesn't "
        "support the temperature field. Remove temperature and try again.\"}"),
    "Moonshot": (bare_error, "invalid temperature: only 1 is allowed for this model"),
    "Bedrock": (bare_error, "This model doesn't support the temperature field. Remove temperature and try again."),
    "Bedrock, older": (bare_error, "Malformed input request: #: extraneous key [temperature] is not permitted, please "
        "reformat your input and try again."),
    "OpenRouter": (openrouter_error, "Unsupported parameter: 'temperature' is not supported with this model."),
    "Codex": (lambda code, message, *_: (code, {"detail": message}), "Unsupported parameter: temperature"),
}  # fmt: skip
"""How endpoints refuse a temperature: the body of their error, and its message."""


@pytest.mark.parametrize("name", TEMPERATURE)
def test_each_wording_of_a_refused_temperature_is_understood_once(name):
    error, message = TEMPERATURE[name]
    wire = Wire(name=name, path="/v1", model="m", missing="", error=error, refused={"temperature": (message, "")})
    with ScriptedJudge(wire=wire) as judge:
        asking = Asking(judge.base_url, model="m", api_key=KEY, parameters={"reasoning_effort": "low"})
        for answers in asking.waves(2, 2):
            assert [answer["value"] for answer in answers] == ["good"] * 2
    assert len(judge.refusals) == 1
    assert all("temperature" not in chat.body and chat.body["reasoning_effort"] == "low" for chat in judge.chats)


@pytest.mark.parametrize(
    ("error", "message"),
    [
        (openai_error, "Unsupported value: 'messages[0].role' does not support 'system' with this model."),
        (bare_error, "System role not supported"),
        (bare_error, "Conversation roles must alternate user/assistant/user/assistant/..."),
        (bare_error, "Only user and assistant roles are supported!"),
        (gemini_error, "Developer instruction is not enabled for models/gemma-3-27b-it"),
        (litellm_error, "litellm.BadRequestError: BedrockException - {\"message\":\"This model doesn't support system "
            "messages. Try again without a system message or use a model that supports system messages.\"}"),
    ],
)  # fmt: skip
def test_a_refused_system_role_moves_its_text_into_the_users_message(error, message):
    wire = Wire(name="roles", path="/v1", model="m", missing="", error=error, no_system=message)
    learnt: list[Mapping[str, str]] = []
    listener = JudgeListener(
        learns=lambda found: learnt.extend([found["judge_refused"]] if "judge_refused" in found else [])
    )
    with ScriptedJudge(wire=wire) as judge:
        judge.script = ["malformed"]
        asking = Asking(judge.base_url, model="m", api_key=KEY, listener=listener, max_retries=1)
        assert [answers[0]["value"] for answers in asking.waves(1, 1)] == ["good"] * 2
    assert learnt == [{"system role": "sent in the user's message"}]
    [only] = judge.refusals
    system, user = (message["content"] for message in only["messages"])
    assert [[said["role"] for said in chat.body["messages"]] for chat in judge.chats] == [
        ["user"], ["user", "assistant", "user"], ["user"],
    ]  # fmt: skip
    assert all(chat.body["messages"][0]["content"] == f"{system}\n\n{user}" for chat in judge.chats)


@pytest.mark.parametrize(
    ("message", "advice"),
    {
        "temperature must be between 0.1 and 1": "to send no temperature, set spec.evaluation.judge.parameters: "
        "{temperature: null}",
        "maxTokens exceeds the model's limit": "to send no max_tokens, set spec.evaluation.judge.parameters: "
        "{max_tokens: null}",
        "This model only support stream mode, please enable the stream parameter to access the model. ": "evalspec "
        "reads whole answers; if the model streams only while it thinks, add enable_thinking: false to "
        "spec.evaluation.judge.parameters, otherwise choose another model",
        "parameter.enable_thinking must be set to false for non-streaming calls": "add enable_thinking: false to",
        "enable thinking can not be support when `stream=False`.": "add enable_thinking: false to",
        "Stream must be set to true": "otherwise choose another model",
    }.items(),
)
def test_a_refusal_that_is_not_understood_names_what_to_write(message, advice):
    with ScriptedJudge() as judge:
        judge.mode = status(400, message=message)
        assert advice in Asking(judge.url, max_retries=3).failure()
        judge.mode = status(400, message="the prompt is too long")
        assert "spec.evaluation.judge" not in Asking(judge.url).failure()


def test_an_answer_in_the_reasoning_says_how_to_turn_thinking_off():
    with ScriptedJudge() as judge:
        judge.mode = "misplaced"
        line = Asking(judge.url).failure()
        assert "the judge's answer is in reasoning_content and its content is empty; turn thinking off in" in line
        judge.script, judge.mode = ["misplaced"], "ok"
        assert Asking(judge.url, max_retries=1)()[0]["value"] == "good"


def bad(message: str, param: str | None = None, code: str | None = None) -> dict:
    return openai_error(400, message, param, code)[1]


SENT = {"temperature": 0.0, "max_tokens": 4096, "response_format": {}, "seed": 7}


@pytest.mark.parametrize(
    ("body", "refused"),
    [
        (bad("Unrecognized request argument supplied: seed"), ["seed"]),
        (bad("Unsupported", "seed", "unsupported_parameter"), ["seed"]),
        (bad("Unknown parameter: 'response_format.strict'.", "response_format.strict"), ["response_format"]),
        ({"error": LM_STUDIO.format_message}, ["response_format"]),
        (bad("[{'loc': ('body', 'seed'), 'msg': 'Extra inputs are not permitted', 'input': 7}]"), ["seed"]),
        (bad('Unknown name "seed": Cannot find field.\nUnknown name "max_tokens": …'), ["max_tokens", "seed"]),
        (bad("max_tokens is too large: 4096. This model supports at most 2048.", "max_tokens"), []),
        (bad("temperature must be between 0 and 1"), []),
        (bad("`temperature` and `seed` cannot both be specified for this model."), []),
        (bad("The prompt is not supported; temperature was 0."), []),
        (bad("'messages' has a field that is unsupported", "messages", "unsupported_parameter"), []),
        ("temperature is not supported", ["temperature"]),
        (bad("Argument not supported on this model: maxTokens"), ["max_tokens"]),
        (bad("This model doesn't support the maxTokens field. Remove maxTokens and try again."), ["max_tokens"]),
        (
            bad("The additional field max_tokens conflicts with maxTokens. Remove max_tokens and try again."),
            ["max_tokens"],
        ),
        (bad("invalid seed: only 1 is allowed for this model"), ["seed"]),
        (bad("openai does not support parameters: ['top_p'], for model=m. Received seed=7"), []),
        (bad("This model does not support images. The temperature was 0."), []),
    ],
    ids=str,
)
def test_only_an_error_that_names_a_parameter_drops_it(body, refused):
    reply = json.dumps(body)
    assert list_refused(ServiceError("x", status=400, reply=reply), SENT) == refused
    assert list_refused(ServiceError("x", status=500, reply=reply), SENT) == []


@pytest.mark.parametrize("message", ["no such path", "The model is overloaded", "temperature is not supported"])
def test_another_error_is_no_missing_model(message):
    for error in (openai_error(404, message), gemini_error(400, message)):
        assert not lacks_model(ServiceError("x", status=404, reply=str(error[1])), "gpt-0")


def test_gemini_names_the_wait_in_its_error():
    detail = {"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": "3600s"}
    limited = (429, [{"error": {"code": 429, "message": "Quota exceeded", "details": [detail]}}])
    wire = Wire(name="limited", path="/v1", model="m", missing="", key_header=None, error=lambda *_: limited)
    with ScriptedJudge(wire=wire) as judge:
        assert "it asks to wait 3600 s" in Asking(judge.base_url, max_retries=3).failure()


def test_a_rate_limit_is_told_with_its_wait():
    waits: list[float] = []
    with ScriptedJudge() as judge:
        judge.script = [throttled(0.3)]
        Asking(judge.url, listener=JudgeListener(waits=waits.append), max_retries=1)()
    assert waits == [0.3]


def test_progress_and_callbacks_say_how_long_the_judge_makes_a_run_wait(seed, capsys):
    told: list[float] = []

    def note(progress):
        if progress.judge_wait_seconds is not None:
            told.append(progress.judge_wait_seconds)

    with ScriptedJudge(CORPUS) as judge:
        judge.script = [throttled(0.2)]
        run = evalspec.evaluate(
            seed / "agent.yaml",
            agent=lambda _question: ANSWER,
            judge={"model": "m", "baseUrl": judge.url, "maxRetries": 4},
            store=seed / "store",
            progress=note,
        )
    assert run.verdict == "PASS"
    assert told[0] == 0.2
    lines = ProgressLines(10)
    lines.judge_waits(19.2)
    lines.judge_waits(18.1)
    assert capsys.readouterr().err.splitlines() == ["the judge is rate limited; its next request is in 20 s"]


@pytest.mark.parametrize(
    ("parameters", "says"),
    [
        ({"model": "x"}, "'model' cannot be a parameter; use model"),
        ({"max_tokens": 9}, "use maxTokens"),
        ({"response_format": {"type": "text"}}, "use responseFormat"),
        ({"seed": float("nan")}, "the value of 'seed' cannot be written as JSON"),
    ],
)
def test_parameters_that_have_a_key_of_their_own(parameters, says):
    with pytest.raises(ValueError, match=says):
        JudgeConfig(parameters=parameters)


def test_runs_whose_judges_refused_other_parameters_are_not_compared():
    judged, plain = {"judge": "m #a", "engine": "ragas"}, {"engine": "evalspec"}
    dataset = {"name": "qa", "metricIdentities": {"faithfulness": judged, "string_match": plain}}
    for described in ({"datasets": [dataset]}, {"judge": {"model": "m"}, "judgeSha256": "a"}):
        before, after = (
            Run(id="r", verdict=VerdictStatus.PASS, datasets=(), fingerprint=as_fingerprint(described | refused))
            for refused in ({}, {"judgeRefused": {"temperature": "left out"}})
        )
        assert list_metric_mismatches(before, after, "qa", "faithfulness") == [
            "the judge's endpoint refused different parameters: none and temperature"
        ]
        assert list_metric_mismatches(after, after, "qa", "faithfulness") == []
        assert list_metric_mismatches(before, after, "qa", "string_match") == []
