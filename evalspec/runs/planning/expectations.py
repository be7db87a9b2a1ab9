"""Warnings about expectations of samples that nothing can compare: no metric reads them, or no tool has the name."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

from msgspec import Struct, field

from evalspec.base.errors import Problem
from evalspec.base.plural import counted, pluralize
from evalspec.base.registry import near_miss
from evalspec.model import Check, Need, Sample, Turn
from evalspec.scoring.metrics.base import METRICS, Metric, MetricDefinition

_NAMES_SHOWN = 10
_READERS: Mapping[str, tuple[Callable[[MetricDefinition], bool], str]] = {
    "expected_tools": (lambda metric: Need.EXPECTED_TOOLS in metric.needs, "tool_call_f1"),
    "expected_state": (lambda metric: Need.EXPECTED_STATE in metric.needs, "end_state"),
    "forbidden_tools": (lambda metric: metric.name == "forbidden_tool_calls", "forbidden_tool_calls"),
    "max_steps": (lambda metric: metric.name == "steps_within_limit", "steps_within_limit"),
}
"""Which metrics read an expectation, and one of them, by the key of the sample."""


class Expectations(Struct):
    """What the samples of a dataset expect of an agent that acts.

    `counts`: how many have a key. `first`: the first of them. `named`: the first sample that names a tool, by key and
    name. `checks`: names of all checks.
    """

    counts: dict[str, int] = field(default_factory=dict)
    first: dict[str, Sample] = field(default_factory=dict)
    named: dict[tuple[str, str], Sample] = field(default_factory=dict)
    checks: set[str] = field(default_factory=set)

    def add(self, sample: Sample) -> None:
        """Note what a sample and its turns expect."""
        has_calls = sample.expected_tools is not None or any(turn.expected_tools is not None for turn in sample.turns)
        values = (has_calls, sample.expected_state, sample.forbidden_tools, sample.max_steps)
        for key, value in zip(_READERS, values, strict=True):
            if value:
                self.counts[key] = self.counts.get(key, 0) + 1
                self.first.setdefault(key, sample)
        for key, name in _list_names(sample):
            self.named.setdefault((key, name), sample)
        self.checks.update(check.name for check in _list_checks(sample))


def find_unread(expected: Expectations, metrics: Iterable[Metric], file: str, total: int) -> Iterator[Problem]:
    """Yield a warning for each key that no metric reads. Metrics of the user may read anything."""
    listed = list(metrics)
    if any(metric.settings.get("entry") or METRICS.origin(metric.definition.name) for metric in listed):
        return
    definitions = [*(metric.definition for metric in listed), *filter(None, map(METRICS.find, expected.checks))]
    for key, count in expected.counts.items():
        reads, example = _READERS[key]
        if not any(map(reads, definitions)):
            have = pluralize(count, "has", "have")
            message = f"{count} of {counted(total, 'sample')} {have} {key}, which no metric reads"
            yield Problem(message, f"add {example} to the metrics", file, expected.first[key].line, key)


def find_undeclared(expected: Expectations, tools: Sequence[str], file: str) -> Iterator[Problem]:
    """Yield a warning for each name of a tool that the agent does not have."""
    strange = [(key, name) for key, name in expected.named if name not in tools]
    for key, name in strange[:_NAMES_SHOWN]:
        message = f"spec.evaluation.tools does not declare '{name}'"
        yield Problem(message, near_miss(name, tools), file, expected.named[key, name].line, key)


def _list_names(sample: Sample) -> Iterator[tuple[str, str]]:
    for side in _list_sides(sample):
        yield from (("expected_tools", call.name) for call in side.expected_tools or ())
    yield from (("forbidden_tools", name) for name in sample.forbidden_tools or ())


def _list_checks(sample: Sample) -> Iterator[Check]:
    for side in _list_sides(sample):
        yield from side.checks


def _list_sides(sample: Sample) -> tuple[Sample | Turn, ...]:
    return (sample, *sample.turns)
