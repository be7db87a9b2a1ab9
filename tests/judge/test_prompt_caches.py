"""Caches of providers: what all samples share comes first, byte for byte, and cached tokens are read and shown."""

import os

import pytest

import evalspec
from evalspec.inputs.usage import read_usage
from evalspec.model import JudgeUsage, Usage
from evalspec.verdict.wording import render_usage
from servers.anthropic_judge import MODEL, AnthropicJudge
from servers.judge_wires import KEY
from servers.scripted_judge import ScriptedJudge

METRICS = [
    "faithfulness", "answer_relevancy", "context_precision", "context_recall", "answer_correctness", "toxicity", "bias",
]  # fmt: skip
FACTS = ["The trial lasts 21 days.", "Refunds take 9 weeks."]
GIVEN = ("context", "reference_contexts")


def run(project, judge, **config):
    samples = [
        {
            "id": f"s{place}",
            "input": f"What of {fact}",
            "expected": fact,
            "context": [fact],
            "reference_contexts": [fact],
        }
        for place, fact in enumerate(FACTS)
    ]
    project.dataset("qa", samples, metrics=METRICS)
    project.evaluation["judge"] = {"model": "m", "baseUrl": judge.url, "apiKey": KEY} | config
    (project.folder / "r.jsonl").write_text(
        "".join(f'{{"id": "s{place}", "response": "{fact}"}}\n' for place, fact in enumerate(FACTS))
    )
    return project.evaluate("--responses", "r.jsonl")


def test_instructions_and_examples_come_first_and_are_the_same_for_all_samples(project):
    with ScriptedJudge() as judge:
        assert run(project, judge).code == 0
    kinds = set(judge.kinds)
    assert len(kinds) >= len(METRICS)
    for kind in kinds:
        asked = [chat.body["messages"] for chat in judge.chats if chat.kind == kind]
        assert {tuple(message["role"] for message in messages) for messages in asked} == {("system", "user")}
        assert len({messages[0]["content"] for messages in asked}) == 1
        prompts = [messages[1]["content"] for messages in asked]
        shared = os.path.commonprefix(prompts)  # noqa: RUF071 - of texts
        assert not any(fact.split()[1] in shared for fact in FACTS), kind
        rest = max(len(prompt) - len(shared) for prompt in prompts)
        assert rest < 600, f"{kind}: {rest} of {len(prompts[0])} characters come after the first difference"
        if "\ninput: " in prompts[0]:
            assert all(prompt.startswith(prompts[0].rpartition("\ninput: ")[0]) for prompt in prompts)


def test_anthropic_caches_all_that_comes_before_the_sample(project):
    with AnthropicJudge() as judge:
        assert run(project, judge, wire="anthropic", model=MODEL).code == 0
    for kind in {"support", "statements", "usefulness", "question"}:
        asked = [chat.body for chat in judge.chats if chat.kind == kind]
        marked = [body["messages"][0]["content"][0] for body in asked]
        assert all(block["cache_control"] == {"type": "ephemeral"} for block in marked)
        assert len({block["text"] for block in marked}) == 1 and "Output: " in marked[0]["text"]
        assert len({str((body["system"], body["tools"])) for body in asked}) == 1


def chat(**more):
    return {"prompt_tokens": 125, "completion_tokens": 48, **more}


def messages(**more):
    return {"input_tokens": 50, "output_tokens": 9, "cache_creation_input_tokens": 20, **more}


@pytest.mark.parametrize(
    ("said", "usage"),
    {
        "OpenAI, Azure, xAI, Groq": (chat(prompt_tokens_details={"cached_tokens": 98}), Usage(125, 48, 98)),
        "nothing in the cache": (chat(prompt_tokens_details={"cached_tokens": 0}), Usage(125, 48)),
        "no details": (chat(prompt_tokens_details=None), Usage(125, 48)),
        "more than there are": (chat(prompt_tokens_details={"cached_tokens": 126}), Usage(125, 48, 125)),
        "DeepSeek": (chat(prompt_cache_hit_tokens=64, prompt_cache_miss_tokens=61), Usage(125, 48, 64)),
        "Moonshot": (chat(cached_tokens=98), Usage(125, 48, 98)),
        "Anthropic": (messages(cache_read_input_tokens=1000), Usage(1070, 9, 1000, 20)),
        "Anthropic, nothing read": (messages(cache_read_input_tokens=None), Usage(70, 9, 0, 20)),
        "OpenAI's responses": (
            {"input_tokens": 125, "output_tokens": 48, "input_tokens_details": {"cached_tokens": 98}},
            Usage(125, 48, 98),
        ),
        "OpenRouter": (
            chat(prompt_tokens_details={"cached_tokens": 5, "cache_write_tokens": 100}),
            Usage(125, 48, 5, 100),
        ),
        "LiteLLM": (
            chat(cache_creation_input_tokens=100, prompt_tokens_details={"cached_tokens": 5}),
            Usage(125, 48, 5, 100),
        ),
        "more written than there are": (
            chat(cached_tokens=98, cache_creation_input_tokens=100),
            Usage(125, 48, 98, 27),
        ),
        "Bedrock, written": ({"inputTokens": 50, "outputTokens": 9, "cacheWriteInputTokens": 30}, Usage(80, 9, 0, 30)),
        "Bedrock": ({"inputTokens": 50, "outputTokens": 9, "cacheReadInputTokens": 30}, Usage(80, 9, 30)),
        "LangChain": (
            {"input_tokens": 50, "output_tokens": 9, "input_token_details": {"cache_read": 30, "cache_creation": 5}},
            Usage(50, 9, 30, 5),
        ),
        "evalspec": (
            {"input_tokens": 50, "output_tokens": 9, "cached_input_tokens": 30, "cache_write_input_tokens": 5},
            Usage(50, 9, 30, 5),
        ),
        "AI SDK 5": ({"inputTokens": 50, "outputTokens": 9, "cachedInputTokens": 30}, Usage(50, 9, 30)),
        "AI SDK 6": (
            {"inputTokens": 50, "outputTokens": 9, "inputTokenDetails": {"cacheReadTokens": 30, "cacheWriteTokens": 5}},
            Usage(50, 9, 30, 5),
        ),
        "a provider of the AI SDK": (
            {"inputTokens": {"total": 50, "cacheRead": 30, "cacheWrite": 5}, "outputTokens": {"total": 9}},
            Usage(50, 9, 30, 5),
        ),
        "AI SDK 4": ({"promptTokens": 50, "completionTokens": 9, "totalTokens": 59}, Usage(50, 9)),
        "Gemini": (
            {
                "promptTokenCount": 50,
                "cachedContentTokenCount": 30,
                "toolUsePromptTokenCount": 7,
                "candidatesTokenCount": 9,
                "thoughtsTokenCount": 100,
            },
            Usage(57, 109, 30),
        ),
        "Gemini in Python": (
            {"prompt_token_count": 50, "candidates_token_count": 9, "thoughts_token_count": None},
            Usage(50, 9),
        ),
        "thoughts that are no count": (
            {"promptTokenCount": 50, "candidatesTokenCount": 9, "thoughtsTokenCount": "many"},
            None,
        ),
        "Cohere": (
            {
                "billed_units": {"input_tokens": 5.0, "output_tokens": 9.0},
                "tokens": {"input_tokens": 71.0, "output_tokens": 9.0},
                "cached_tokens": 64,
            },
            Usage(71, 9, 64),
        ),
        "Cohere, what is billed": ({"billed_units": {"input_tokens": 5, "output_tokens": 9}}, Usage(5, 9)),
        "LangChain4j": ({"inputTokenCount": 50, "outputTokenCount": 9, "totalTokenCount": 59}, Usage(50, 9)),
        "Microsoft.Extensions.AI": (
            {"inputTokenCount": 50, "outputTokenCount": 9, "cachedInputTokenCount": 30},
            Usage(50, 9, 30),
        ),
        "whole floats": (chat(prompt_tokens=125.0, completion_tokens=4.8e1, cached_tokens=7.0), Usage(125, 48, 7)),
        "a part of a token": (chat(prompt_tokens=12.5), None),
        "not a number": (chat(prompt_tokens=float("nan")), None),
        "infinite": (chat(completion_tokens=float("inf")), None),
        "as text": (chat(prompt_tokens="125"), None),
        "a part of the input is no count": (messages(cache_read_input_tokens="1000"), None),
        "no other count": ({"cached_tokens": 7}, None),
    }.values(),
)
def test_tokens_are_read_in_every_spelling(said, usage):
    assert read_usage(said) == usage


def test_the_share_is_shown_where_tokens_are(project):
    assert render_usage(JudgeUsage(2, 0, 1000, 20)) == "judge: 2 calls, 1,000 tokens in, 20 out"
    with AnthropicJudge() as judge:
        outcome = run(project, judge, wire="anthropic", model=MODEL)
    assert " tokens in, 58% of them from the provider's cache, " in " ".join(outcome.out.split())
    used = evalspec.load_run(next(project.folder.glob(".evalspec/runs/*"))).judge_usage["toxicity"]
    assert (used.input_tokens, used.cached_input_tokens) == (24, 14)
