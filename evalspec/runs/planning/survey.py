"""Summarise and check the samples of a dataset while they are read, so that planning need not keep them in memory."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

from msgspec import Struct, field
from msgspec.structs import replace

from evalspec.base.errors import InvalidInput, Problem, split_fix
from evalspec.base.foreign_text import inert
from evalspec.base.registry import SURELY_MEANT, find_close
from evalspec.inputs.manifest.metric_schema import WithThresholds
from evalspec.inputs.manifest.metric_spec import split_column
from evalspec.model import Check, Need, Sample, Turn
from evalspec.runs.planning.copies import CopyFinder
from evalspec.runs.planning.expectations import Expectations
from evalspec.scoring.metrics.base import BuildContext, Metric
from evalspec.scoring.metrics.columns import ParameterError, find_definition
from evalspec.scoring.metrics.sample_checks import build_check
from evalspec.verdict.summary import in_slice

PLACES_SHOWN = 8
_FIXES: Mapping[Need, str] = {
    Need.CONTEXT: "add it, or map spec.api.chatEndpoint.response.contexts",
}
_CONTEXTS = (Need.CONTEXT, Need.REFERENCE_CONTEXTS)
"""The columns of AgentSpec's table of metrics."""
_BY_ANSWER = {"context_recall": "add it, or write {name: context_recall, reference: expected}"}
"""Metrics that can compare with the right answer where passages that contain it are missing, to the fix."""
_PROBLEMS_SHOWN = 100
_NEEDS = (
    Need.EXPECTED,
    Need.CONTEXT,
    Need.REFERENCE_CONTEXTS,
    Need.RELEVANT,
    Need.EXPECTED_TOOLS,
    Need.EXPECTED_STATE,
    Need.CHECKS,
)
"""What a metric may need of a sample, in the order of `_list_lacks`."""
_OF_LINES = (Need.EXPECTED, Need.REFERENCE_CONTEXTS, Need.EXPECTED_TOOLS)
"""What a check may need of the line that it is in."""
_OF_SOME = (Need.EXPECTED_TOOLS, Need.EXPECTED_STATE, Need.CHECKS)
"""What only some samples need to have."""


def has(sample: Sample, need: Need) -> bool:
    """Return whether a sample itself has what a metric needs."""
    return not _list_lacks(sample)[_NEEDS.index(need)]


def _list_lacks(sample: Sample) -> tuple[bool, ...]:
    return (
        not sample.references,
        sample.retrieved_contexts is None,
        not sample.reference_contexts,
        sample.qrels is None,
        sample.expected_tools is None,
        sample.expected_state is None,
        not sample.checks,
    )


def _list_lacks_of_turn(turn: Turn) -> tuple[bool, ...]:
    return (not turn.references, True, True, True, turn.expected_tools is None, True, not turn.checks)


class Lacking(Struct):
    """The samples that lack something: their number and the first of them."""

    count: int = 0
    first: list[Sample] = field(default_factory=list)

    def add(self, sample: Sample) -> None:
        """Count a sample."""
        self.count += 1
        if len(self.first) <= PLACES_SHOWN:
            self.first.append(sample)


class Conversations(Struct):
    """Samples with more messages than one question. `begun`: those with messages before the first that is asked."""

    every: Lacking = field(default_factory=Lacking)
    begun: Lacking = field(default_factory=Lacking)

    def add(self, sample: Sample) -> None:
        """Note a sample if it is a conversation."""
        is_begun, is_played = bool(sample.opening), sample.user is not None and sample.user.max_turns > 1
        if is_begun:
            self.begun.add(sample)
        if is_begun or is_played or len(sample.turns) > 1:
            self.every.add(sample)


class Survey(Struct):
    """A summary of a dataset.

    `sought`: the slices with a threshold. `found`: those with a sample. `alike`: samples by what they lack.
    `first`: the first samples without a need. `tags`, `keys`: all tags and metadata keys. `copies`: finds equal
    samples. `has_judgements`: whether a sample has a judged document. `lowest_best`: the minimum over judged samples of
    their highest grade, which is 0 without documents. `conversations`: the samples that are more than a question.
    `users`: those whose user is simulated. `expectations`: what an agent should do. `wordless`: those whose query has
    no words.
    """

    sought: frozenset[str] = frozenset()
    copies: CopyFinder = field(default_factory=CopyFinder)
    found: set[str] = field(default_factory=set)
    alike: dict[tuple[bool, ...], Lacking] = field(default_factory=dict)
    first: dict[Need, list[Sample]] = field(default_factory=lambda: {need: [] for need in _NEEDS})
    tags: set[str] = field(default_factory=set)
    keys: set[str] = field(default_factory=set)
    has_judgements: bool = False
    lowest_best: int | None = None
    conversations: Conversations = field(default_factory=Conversations)
    expectations: Expectations = field(default_factory=Expectations)
    users: Lacking = field(default_factory=Lacking)
    wordless: Lacking = field(default_factory=Lacking)

    def watch(self, samples: Iterable[Sample], checked: "CheckWatch | None" = None) -> Iterator[Sample]:
        """Yield the samples and add them to the summary. `checked`: notes their problems."""
        left, last, alike = self.sought - self.found, None, Lacking()
        for sample in samples:
            acts = sample.list_acts()
            self.copies.add(sample, acts)
            lacks = _list_lacks(sample)
            if sample.turns:
                lacks = tuple(map(min, lacks, *map(_list_lacks_of_turn, sample.turns)))
            if lacks != last:
                last, alike = lacks, self.alike.setdefault(lacks, Lacking())
            alike.count += 1
            if alike.count <= PLACES_SHOWN + 1:
                self._note_lacking(sample, lacks)
            if acts or not isinstance(sample.user_input, str) or not sample.has_words:
                self._add_uncommon(sample)
            if checked is not None and (acts or checked.explain):
                checked.add(sample)
            if sample.qrels is not None and not (self.has_judgements and self.lowest_best in sample.qrels.values()):
                self._note_grades(sample.qrels)
            if sample.tags:
                self.tags.update(sample.tags)
            self.keys.update(sample.metadata)
            if left:
                self.found |= {name for name in left if in_slice(sample, name)}
                left -= self.found
            yield sample

    def _note_lacking(self, sample: Sample, lacks: Sequence[bool]) -> None:
        for need, is_lacking in zip(_NEEDS, lacks, strict=True):
            if is_lacking and len(self.first[need]) <= PLACES_SHOWN:
                self.first[need].append(sample)

    def _note_grades(self, qrels: Mapping[str, int]) -> None:
        best = max(qrels.values(), default=0)
        self.lowest_best = best if self.lowest_best is None else min(best, self.lowest_best)
        self.has_judgements |= bool(qrels)

    def _add_uncommon(self, sample: Sample) -> None:
        """Add what common samples lack."""
        self.expectations.add(sample)
        self.conversations.add(sample)
        if sample.user is not None:
            self.users.add(sample)
        if not sample.has_words:
            self.wordless.add(sample)

    @property
    def count(self) -> int:
        """Return the number of samples."""
        return sum(alike.count for alike in self.alike.values())

    @property
    def has_answers(self) -> bool:
        """Return whether a sample has an expected answer."""
        return self.count_lacking(Need.EXPECTED) < self.count

    @property
    def has_checks(self) -> bool:
        """Return whether a sample has checks."""
        return self.count_lacking(Need.CHECKS) < self.count

    @property
    def has_only_checks(self) -> bool:
        """Return whether each sample has checks."""
        return self.count > 0 and not self.lacks(Need.CHECKS)

    def lacks(self, need: Need) -> bool:
        """Return whether a sample lacks what a metric may need."""
        return self.count_lacking(need) > 0

    def count_lacking(self, need: Need) -> int:
        """Return how many samples lack what a metric may need; 0 if it is nothing that a sample has."""
        if need not in self.first:
            return 0
        place = _NEEDS.index(need)
        return sum(alike.count for lacks, alike in self.alike.items() if lacks[place])

    def has_slice(self, name: str | None) -> bool:
        """Return whether a sought slice has a sample; None is the slice of all samples."""
        return self.count > 0 if name is None else name in self.found


def find_conversations(samples: Iterable[Sample]) -> Conversations:
    """Return the samples that have more messages than one question."""
    found = Conversations()
    for sample in samples:
        found.add(sample)
    return found


def check_needs(
    survey: Survey, metrics: Iterable[Metric], shown_as: str, given_by_reply: frozenset[Need]
) -> list[Problem]:
    """Return a problem, with lines, for each field that a metric needs and a sample lacks.

    `given_by_reply`: needs that replies satisfy, so that samples need not.
    """
    needed_by: dict[Need, list[Metric]] = {}
    for metric in metrics:
        for need in sorted(metric.needs - given_by_reply):
            needed_by.setdefault(need, []).append(metric)
    problems = []
    for need, needing in needed_by.items():
        lacking = survey.count_lacking(need)
        if lacking and (need not in _OF_SOME or lacking == survey.count):
            problems.append(_problem(need, needing, survey, shown_as))
    return problems


def _problem(need: Need, metrics: Sequence[Metric], survey: Survey, shown_as: str) -> Problem:
    lacking, names = Lacking(survey.count_lacking(need), survey.first[need]), [metric.name for metric in metrics]
    first, also = lacking.first[0], describe_others(lacking, survey.count)
    where = "" if first.line is not None else f" in sample {first.id}"
    of_both = [metric.name for metric in metrics if need in _CONTEXTS and metric.needs.issuperset(_CONTEXTS)]
    both = "".join(f"; {name} needs {' and '.join(_CONTEXTS)}" for name in of_both)
    message = f"missing or empty{where}, needed by {', '.join(names)}{also}{both}"
    by_answer = [_BY_ANSWER[name] for name in names if need is Need.REFERENCE_CONTEXTS and name in _BY_ANSWER]
    fix = by_answer[0] if by_answer else _FIXES.get(need, "add it or drop the metric")
    near = find_close(need.value, survey.keys, SURELY_MEANT) if lacking.count == survey.count else None
    fix = f"did you mean the column '{inert(near)}'? Rename it to {need.value}" if near else fix
    return Problem(message, fix, shown_as, first.line, need.value)


def describe_others(lacking: Lacking, total: int) -> str:
    """Return the places of all samples but the first, in brackets after a blank; empty if there are none."""
    others = lacking.first[1:]
    return f" (also {_places(others, lacking.count - 1)}; {lacking.count} of {total} samples)" if others else ""


def _places(first: Sequence[Sample], count: int) -> str:
    """Return the lines of the first of `count` samples, or their ids if the format has no lines."""
    lined = all(sample.line is not None for sample in first)
    shown = [str(sample.line if lined else sample.id) for sample in first]
    more = f" and {count - len(first)} more" if count > len(first) else ""
    return f"{'lines' if lined else 'samples'} {', '.join(shown)}{more}"


Explain = Callable[[Sample], str | None]
"""Returns why the expected answers of a sample cannot be compared with."""


class CheckWatch(Struct):
    """The problems of samples, found while they are read. `explain`: those of the metrics of the dataset."""

    context: BuildContext
    explain: frozenset[Explain]
    noted: dict[Problem, Lacking] = field(default_factory=dict)

    def add(self, sample: Sample) -> None:
        """Note the problems of a sample."""
        for problem in self._find_problems(sample):
            if problem in self.noted or len(self.noted) < _PROBLEMS_SHOWN:
                self.noted.setdefault(problem, Lacking()).add(sample)

    def list_problems(self, shown_as: str, count: int) -> list[Problem]:
        """Return the problems, each once, with the lines of its samples. `count`: of all samples."""
        return [
            replace(
                problem,
                message=f"{problem.message}{describe_others(lacking, count)}",
                file=shown_as,
                line=lacking.first[0].line,
            )
            for problem, lacking in self.noted.items()
        ]

    def _find_problems(self, sample: Sample) -> Iterator[Problem]:
        explain = set(self.explain)
        for place, check in _list_checks(sample):
            try:
                built = build_check(check, self.context)
            except ParameterError as error:
                message, fix = split_fix(str(error))
                yield Problem(message, fix, field=f"{place}.{error.key}")
                continue
            except InvalidInput as error:
                yield from (replace(problem, field=place) for problem in error.problems)
                continue
            lacking = [need for need in built.needs if need in _OF_LINES and not has(sample, need)]
            for need in lacking:
                yield Problem(f"missing or empty, needed by {built.name} of checks", "add it", field=need.value)
            if built.definition.explain_expected is not None:
                explain.add(built.definition.explain_expected)
        for problem in filter(None, (one(sample) for one in explain)):
            message, fix = split_fix(problem)
            yield Problem(message, fix, field="expected")


def _list_checks(sample: Sample) -> Iterator[tuple[str, Check]]:
    """Yield the checks of a sample and of its turns, each with its place."""
    sides = [("", sample.checks), *((f"turns[{number}].", turn.checks) for number, turn in enumerate(sample.turns))]
    for place, checks in sides:
        yield from ((f"{place}checks[{index}]", check) for index, check in enumerate(checks))


def watch_checks(sections: Sequence[WithThresholds], context: BuildContext) -> CheckWatch:
    """Return what looks at the samples of a dataset. `sections`: of the evaluation and of the dataset."""
    evaluation, own = sections
    metrics = own.metrics if own.metrics is not None else evaluation.metrics or []
    definitions = (find_definition(split_column(entry.name).base) for entry in metrics)
    found = {one.explain_expected for one in definitions if one is not None}
    return CheckWatch(context, frozenset(one for one in found if one is not None))
