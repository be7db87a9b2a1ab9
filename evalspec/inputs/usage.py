"""Read token counts in the spelling of any provider."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from evalspec.model import Usage

_MOST_TOKENS = 10**15
"""Larger counts are an error of the service. Sums of counts of this size are exact as floats, or nearly."""


class _Spelling(NamedTuple):
    """How a provider spells its counts, as keys joined by dots. `cached`, `saved`: the input tokens from its prompt
    cache, and written to it, within the input.

    `apart`: both of them, if `input` does not count them. `more_input`, `more_output`: further tokens that `input` and
    `output` do not count; without them, none.
    """

    input: str
    output: str
    cached: Sequence[str] = ()
    saved: Sequence[str] = ()
    apart: Sequence[str] = ()
    more_input: str = ""
    more_output: str = ""


_DETAILS = ("prompt_tokens_details.cached_tokens", "input_tokens_details.cached_tokens")
_SPELLINGS = (
    # OpenAI, Azure, Gemini, xAI, Groq, Mistral, Qwen, OpenRouter, vLLM; then DeepSeek, Moonshot, and LiteLLM
    _Spelling(
        "prompt_tokens",
        "completion_tokens",
        (*_DETAILS, "prompt_cache_hit_tokens", "cached_tokens"),
        ("prompt_tokens_details.cache_write_tokens", "cache_creation_input_tokens"),
    ),
    # Anthropic counts cached tokens apart. OpenAI's responses, LangChain and evalspec's reports do not.
    _Spelling(
        "input_tokens",
        "output_tokens",
        (*_DETAILS, "input_token_details.cache_read", "cached_input_tokens"),
        ("input_tokens_details.cache_write_tokens", "input_token_details.cache_creation", "cache_write_input_tokens"),
        ("cache_read_input_tokens", "cache_creation_input_tokens"),
    ),
    # Bedrock counts cached tokens apart. The AI SDK 5 and 6 do not.
    _Spelling(
        "inputTokens",
        "outputTokens",
        ("inputTokenDetails.cacheReadTokens", "cachedInputTokens"),
        ("inputTokenDetails.cacheWriteTokens",),
        ("cacheReadInputTokens", "cacheWriteInputTokens"),
    ),
    # The AI SDK: its interface to providers, and version 4
    _Spelling("inputTokens.total", "outputTokens.total", ("inputTokens.cacheRead",), ("inputTokens.cacheWrite",)),
    _Spelling("promptTokens", "completionTokens"),
    # Gemini's own API, in JSON and in Python
    _Spelling(
        "promptTokenCount",
        "candidatesTokenCount",
        ("cachedContentTokenCount",),
        more_input="toolUsePromptTokenCount",
        more_output="thoughtsTokenCount",
    ),
    _Spelling(
        "prompt_token_count",
        "candidates_token_count",
        ("cached_content_token_count",),
        more_input="tool_use_prompt_token_count",
        more_output="thoughts_token_count",
    ),
    # Cohere. What it bills may be less than what the model has read.
    _Spelling("tokens.input_tokens", "tokens.output_tokens", ("cached_tokens",)),
    _Spelling("billed_units.input_tokens", "billed_units.output_tokens"),
    # LangChain4j, Microsoft.Extensions.AI
    _Spelling("inputTokenCount", "outputTokenCount", ("cachedInputTokenCount",)),
    # Ollama
    _Spelling("prompt_eval_count", "eval_count"),
)


def read_usage(value: Any) -> Usage | None:
    """Return the input and output tokens; None unless the value has both counts, because unknown is not 0.

    Input tokens include those that the provider read from its prompt cache, or wrote to it. Whole floats are counts; a
    part of the input that is given and is no count makes the whole unknown.
    """
    if not isinstance(value, Mapping):
        return None
    return next((usage for one in _SPELLINGS if (usage := _read_spelling(value, one)) is not None), None)


def _read_spelling(value: Mapping[str, Any], spelling: _Spelling) -> Usage | None:
    given, output = _find_count(value, spelling.input), _find_count(value, spelling.output)
    more_input, more_output = _find_added(value, spelling.more_input), _find_added(value, spelling.more_output)
    apart = [count for key in spelling.apart if (count := _find_added(value, key)) is not None]
    if given is None or output is None or more_input is None or more_output is None or len(apart) < len(spelling.apart):
        return None
    given += more_input + sum(apart)
    cached = min(given, _find_first(value, spelling.cached) or sum(apart[:1]))
    saved = min(given - cached, _find_first(value, spelling.saved) or sum(apart[1:]))
    return Usage(given, output + more_output, cached, saved)


def _find_first(value: Any, paths: Sequence[str]) -> int:
    return next((count for path in paths if (count := _find_count(value, path))), 0)


def _find_count(value: Any, path: str) -> int | None:
    return _as_count(_find(value, path))


def _find_added(value: Any, path: str) -> int | None:
    """Return a count that may be absent: 0. None: it is given, and is no count."""
    found = _find(value, path) if path else None
    return 0 if found is None else _as_count(found)


def _find(value: Any, path: str) -> Any:
    for key in path.split("."):
        value = value.get(key) if isinstance(value, Mapping) else None
    return value


def _as_count(value: Any) -> int | None:
    is_whole = isinstance(value, int | float) and not isinstance(value, bool) and value % 1 == 0
    return int(value) if is_whole and 0 <= value <= _MOST_TOKENS else None
