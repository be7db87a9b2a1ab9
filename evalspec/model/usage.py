"""The tokens that agent and judge use, and what they cost."""

import operator
from collections.abc import Mapping, Sequence
from typing import Annotated

from msgspec import Meta
from msgspec.structs import astuple, replace

from evalspec.model.base import Number, Record

MILLION = 1_000_000


class Usage(Record, frozen=True, omit_defaults=True):
    """Tokens of one call, as counted by the service.

    `cached_input_tokens`, `cache_write_input_tokens`: input tokens from its own prompt cache, and written to it.
    """

    input_tokens: int
    output_tokens: int
    cached_input_tokens: int = 0
    cache_write_input_tokens: int = 0

    @property
    def total(self) -> int:
        """The sum of input and output tokens."""
        return self.input_tokens + self.output_tokens


class JudgeUsage(Record, frozen=True):
    """Usage of the judge."""

    calls: Annotated[int, Meta(description="Number of answered requests.")] = 0
    retries: Annotated[int, Meta(description="Number of repeated requests.")] = 0
    input_tokens: Annotated[int, Meta(description="Tokens of the prompts, as the service counts them.")] = 0
    output_tokens: Annotated[int, Meta(description="Tokens of the answers, as the service counts them.")] = 0
    uncounted: Annotated[
        int, Meta(description="Number of answers without a token count. The sums lack their tokens.")
    ] = 0
    cached: Annotated[
        int, Meta(description="Number of results that were taken from the judge's cache, so nothing was asked.")
    ] = 0
    cached_input_tokens: Annotated[
        int, Meta(description="Those of the input tokens that the service read from its own cache.")
    ] = 0
    requests: Annotated[int, Meta(description="Number of requests that were sent, with those that failed.")] = 0
    reserved_input_tokens: Annotated[
        int, Meta(description="At most so many further tokens of prompts, of requests without a token count.")
    ] = 0
    reserved_output_tokens: Annotated[
        int, Meta(description="At most so many further tokens of answers, of requests without a token count.")
    ] = 0
    cache_write_input_tokens: Annotated[
        int, Meta(description="Those of the input tokens that the service wrote to its own cache.")
    ] = 0

    @property
    def most_tokens(self) -> int:
        """The highest possible number of tokens, with those of requests without a token count."""
        return self.input_tokens + self.output_tokens + self.reserved_input_tokens + self.reserved_output_tokens

    def __add__(self, other: "JudgeUsage") -> "JudgeUsage":
        return JudgeUsage(*map(operator.add, astuple(self), astuple(other)))

    def __sub__(self, other: "JudgeUsage") -> "JudgeUsage":
        return JudgeUsage(*map(operator.sub, astuple(self), astuple(other)))


def add_usage(*parts: Mapping[str, JudgeUsage]) -> dict[str, JudgeUsage]:
    """Return the sums of usages by metric."""
    found: dict[str, JudgeUsage] = {}
    for part in parts:
        for metric, used in part.items():
            found[metric] = found.get(metric, JudgeUsage()) + used
    return found


class JudgePrice(Record, frozen=True):
    """What the judge costs, in a currency that the user knows."""

    input: Annotated[Number, Meta(description="Price of a million input tokens.")]
    output: Annotated[Number, Meta(description="Price of a million output tokens.")]
    cached: Annotated[
        Number | None, Meta(description="Price of a million input tokens from the service's cache; null: as `input`.")
    ] = None
    cache_write: Annotated[
        Number | None,
        Meta(description="Price of a million input tokens that the service writes to its cache; null: as `input`."),
    ] = None

    def compute_cost(self, usage: JudgeUsage) -> float | None:
        """Return the cost of the tokens that were counted; None if an answer has no token count."""
        if usage.uncounted:
            return None
        read, written = usage.cached_input_tokens, usage.cache_write_input_tokens
        parts = (
            (usage.input_tokens - read - written) * self.input,
            read * (self.input if self.cached is None else self.cached),
            written * (self.input if self.cache_write is None else self.cache_write),
            usage.output_tokens * self.output,
        )
        return sum(parts) / MILLION

    def compute_most(self, usage: JudgeUsage) -> float:
        """Return the highest possible cost, with the tokens of requests without a token count."""
        counted = self.compute_cost(replace(usage, uncounted=0)) or 0.0
        input_price = max(self.input, self.cached or 0.0, self.cache_write or 0.0)
        reserved = usage.reserved_input_tokens * input_price + usage.reserved_output_tokens * self.output
        return counted + reserved / MILLION


def add_up(parts: Sequence[Usage | None]) -> Usage | None:
    """Return the sum of usages; None if one of them is unknown."""
    known = [part for part in parts if part is not None]
    return Usage(*map(sum, zip(*map(astuple, known), strict=True))) if known and len(known) == len(parts) else None
