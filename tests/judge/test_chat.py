"""The judge's transport: what is sent, what is asked for again, and what ends in one clear line."""

import asyncio
import json
import socket
from typing import Any

import pytest

from evalspec.base.errors import JudgeError
from evalspec.inputs.manifest.judge_schema import JudgeConfig
from evalspec.scoring.judge.chat import ChatClient
from evalspec.scoring.judge.extraction import extract_object
from evalspec.scoring.judge.parameters import compute_effective_parameters
from evalspec.scoring.judge.usage import UsageLedger
from servers.faulty_agent import Answer
from servers.scripted_judge import status, throttled, unauthorized

KEY = "sk-scripted-0123456789"
SCHEMA = {"properties": {"value": {"enum": ["good", "bad"]}}}


class Asking:
    """Questions to one judge, and what they cost."""

    def __init__(self, url: str, *, listener=None, keys=None, **config) -> None:
        settings = {"model": "scripted", "api_key": KEY, "max_retries": 0, "timeout_seconds": 60.0}
        self.config = JudgeConfig(base_url=url, **(settings | config))
        self.ledger = UsageLedger()
        self.listener = listener
        self.keys = keys

    def __call__(self, count: int = 1) -> list[Any]:
        """Ask so many times at once: answers, or the errors."""
        return self.waves(count)[0]

    def waves(self, *counts: int, between=lambda: None) -> list[list[Any]]:
        """Ask so many times at once, then again with the same client. `between`: called before each further wave."""

        async def ask_at_once(client: ChatClient, count: int, is_first: bool) -> list[Any]:
            if not is_first:
                between()
            asked = (client.ask("polite?", SCHEMA, extract_object, "tone") for _ in range(count))
            return await asyncio.gather(*asked, return_exceptions=True)

        async def ask() -> list[list[Any]]:
            client = ChatClient(self.config, self.ledger, self.listener, keys=self.keys)
            try:
                return [await ask_at_once(client, count, not place) for place, count in enumerate(counts)]
            finally:
                await client.aclose()

        return asyncio.run(ask())

    def failure(self) -> str:
        """The line in which a question ends."""
        [error] = self()
        assert isinstance(error, JudgeError), error
        line = str(error)
        assert "\n" not in line
        assert len(line) < 400
        assert KEY not in line
        return line


def test_what_is_sent_and_counted(judge):
    asking = Asking(judge.url, temperature=0.5, max_tokens=77)
    assert asking() == [{"reason": "by the script", "value": "good"}]
    [request] = judge.chats
    assert request.headers["authorization"] == f"Bearer {KEY}"
    assert {key: value for key, value in request.body.items() if key != "messages"} == {
        "model": "scripted",
        "temperature": 0.5,
        "max_tokens": 77,
        "response_format": {"type": "json_object"},
    }
    assert '"enum": ["good", "bad"]' in request.body["messages"][0]["content"]
    total = asking.ledger.total
    assert (total.calls, total.retries, total.input_tokens, total.uncounted) == (1, 0, len("polite?") // 4, 0)


def test_no_key_sends_no_header_and_the_line_end_of_a_key_file_is_dropped(judge):
    Asking(judge.url, api_key=None)()
    Asking(judge.url, api_key=f"{KEY}\n")()
    assert "authorization" not in judge.chats[0].headers
    assert judge.chats[1].headers["authorization"] == f"Bearer {KEY}"


def test_a_key_is_not_quoted(agent):
    agent.mode = Answer(body=f"{'no such key ' * 12}{KEY}".encode())
    line = Asking(agent.url).failure()
    assert "is not valid JSON" in line
    assert KEY[:8] not in line


def test_a_key_like_a_word_of_json_breaks_no_answer(agent):
    message = {"content": '{"value": "good"}', "refusal": None}
    agent.mode = Answer(body=json.dumps({"choices": [{"message": message}]}).encode())
    assert Asking(agent.url, api_key="null")() == [{"value": "good"}]


@pytest.mark.parametrize(
    ("model", "fixed"),
    {
        "o3": True, "o4-mini": True, "gpt-5": True, "gpt-5.1-mini": True, "openai/gpt-5-nano": True, "gpt-12": True,
        "global.openai.gpt-5.6": True, "bedrock/us.openai.gpt-5.6-luna": True, "ft:gpt-5-mini:team": True,
        "us.anthropic.claude-opus-5": False, "openai.gpt-oss-120b": False, "marco-o1": False,
        "gpt-4o": False, "gpt-4.1": False, "olmo-2": False, "o300": False, "meta/gpt-50b": False,
    }.items(),
)  # fmt: skip
def test_models_that_refuse_a_temperature_get_none(model, fixed):
    parameters = compute_effective_parameters(JudgeConfig(model=model, max_tokens=9))
    assert ("temperature" not in parameters) is fixed
    assert parameters["max_completion_tokens" if fixed else "max_tokens"] == 9


def test_json_in_a_fence_is_accepted(judge):
    judge.mode = "fenced"
    assert Asking(judge.url)()[0]["value"] == "good"


@pytest.mark.parametrize(
    ("mode", "says"),
    {
        "prose": "it is not a JSON object; the judge wrote 'I think that",
        "empty": "it is empty",
        "malformed": "it is not a JSON object",
        "refusal": "refused to answer: 'I cannot help with that.'",
        "filtered": "the judge's answer is incomplete: finish_reason 'content_filter'",
        "no_choices": "answered without choices",
        "truncated": "increase spec.evaluation.judge.maxTokens",
        "html": "returned an HTML page instead of JSON; check spec.evaluation.judge.baseUrl",
        "not_an_object": "the reply is a string, not a JSON object; check spec.evaluation.judge.baseUrl",
        "stream": "returned a stream instead of JSON; turn streaming off there",
        "huge": "larger than 10,485,760 bytes",
        "drop": "was closed before the reply was complete",
        "hang": "within 0.2 s (spec.evaluation.judge.timeoutSeconds)",
        status(500): "500 Internal Server Error, expected 200; the reply says 'no'",
        status(302, {"Location": "/elsewhere"}): "redirects are not followed; if http",
        status(400, message="model is unknown"): "400 Bad Request, expected 200; the reply says 'model is unknown'",
        status(404): "check spec.evaluation.judge.baseUrl and model",
        unauthorized(KEY): "check spec.evaluation.judge.apiKey",
        throttled(3600): "it asks to wait 3600 s, more than the limit of 120 s",
        status(429, message="You exceeded your quota: insufficient_quota"): "no quota left",
    }.items(),
    ids=str,
)
def test_each_failure_ends_in_one_line_that_says_what_to_check(judge, mode, says):
    judge.mode = mode
    line = Asking(judge.url, timeout_seconds=0.2 if mode == "hang" else 60.0).failure()
    assert says in line
    assert "judge" in line


@pytest.mark.parametrize(
    "mode", ["malformed", "prose", "refusal", "filtered", "drop", status(503), status(500)], ids=str
)
def test_one_failure_is_got_over(judge, mode):
    judge.script = [mode]
    asking = Asking(judge.url, max_retries=1)
    assert asking()[0]["value"] == "good"
    assert (len(judge.chats), asking.ledger.total.retries) == (2, 1)


def test_retries_are_bounded(judge):
    judge.mode = "malformed"
    asking = Asking(judge.url, max_retries=3)
    asking.failure()
    assert (len(judge.chats), asking.ledger.total.calls, asking.ledger.total.retries) == (4, 4, 3)


def test_a_bad_request_is_not_repeated(judge):
    judge.mode = status(400)
    Asking(judge.url, max_retries=3).failure()
    assert len(judge.chats) == 1


def test_an_answer_cut_off_is_asked_for_once_more_with_twice_the_room(judge):
    judge.mode = "truncated_once"
    assert Asking(judge.url, max_tokens=50)()[0]["value"] == "good"
    assert [request.body["max_tokens"] for request in judge.chats] == [50, 100]
    judge.mode = "truncated"
    judge.chats.clear()
    assert "100 tokens" in Asking(judge.url, max_tokens=50, max_retries=3).failure()
    assert len(judge.chats) == 2


def test_a_wait_that_the_service_asks_for_holds_every_request_back(judge):
    judge.script = [throttled(0.4)]
    answers = Asking(judge.url, max_retries=1, concurrency=1)(4)
    assert all(isinstance(answer, dict) for answer in answers)
    arrivals = [request.arrived for request in judge.chats]
    assert len(arrivals) == 5
    assert min(arrivals[1:]) - arrivals[0] >= 0.39


def test_fewer_requests_at_a_time_after_the_service_had_too_much_to_do(judge):
    judge.script, judge.delay = [status(429)], 0.02  # time for one that is too many

    def gather() -> None:
        judge.gathers = 2

    Asking(judge.url, concurrency=4).waves(1, 4, between=gather)
    assert judge.peak_concurrency == 2


def test_half_a_surrogate_pair_in_an_answer_becomes_the_replacement_character(agent):
    completion = {"choices": [{"message": {"content": '{"value": "cut \ud83d"}'}}]}
    agent.mode = Answer(body=json.dumps(completion).encode())
    assert Asking(agent.url)() == [{"value": "cut \ufffd"}]


def test_after_a_refused_key_no_more_is_sent(judge):
    judge.mode = unauthorized(KEY)
    first, later = Asking(judge.url, max_retries=3, concurrency=4).waves(20, 20)
    assert len(judge.chats) <= 4
    assert {str(error) for error in later} == {str(first[0])}
    assert all(error.fatal for error in first + later)


def test_a_judge_that_is_down_is_given_up():
    with socket.socket() as closed:  # open, so that nobody else listens there
        closed.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{closed.getsockname()[1]}/v1"
        first, later = Asking(url, max_retries=1, concurrency=8).waves(20, 20)
    assert "the judge: cannot connect to http://127.0.0.1" in str(first[0])
    [line] = {str(error) for error in later}
    assert "no answer to" in line
    assert all(error.fatal for error in later)


def test_requests_at_a_time_are_bounded(judge):
    judge.gathers, judge.delay = 3, 0.02  # time for one that is too many
    answers = Asking(judge.url, concurrency=3)(12)
    assert all(isinstance(answer, dict) for answer in answers)
    assert judge.peak_concurrency == 3


@pytest.mark.parametrize("url", ["localhost:4000", "ftp://host/v1", "http://[::1", "http://"])
def test_a_url_that_is_none(url):
    with pytest.raises(JudgeError, match=r"spec.evaluation.judge.baseUrl is not a url"):
        Asking(url)()


def test_the_url_keeps_its_query_and_is_shown_without_secrets(judge):
    host = judge.url.removeprefix("http://")
    judge.mode = status(400)
    line = Asking(f"http://user:pass-1234@{host}?api-version=7").failure()
    assert f"http://{host}/chat/completions" in line
    assert "pass-1234" not in line
    assert "api-version" not in line
