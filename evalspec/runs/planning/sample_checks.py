"""Check what samples expect of their replies before the first request: their checks, and JSON for json_fields."""

from collections.abc import Callable, Iterable, Iterator, Sequence

from msgspec import Struct, field
from msgspec.structs import replace

from evalspec.base.errors import InvalidInput, Problem, split_fix
from evalspec.inputs.manifest.metric_schema import WithThresholds
from evalspec.inputs.manifest.metric_spec import split_column
from evalspec.model import Need, Sample
from evalspec.runs.planning.survey import Lacking, describe_others
from evalspec.scoring.metrics.base import BuildContext
from evalspec.scoring.metrics.columns import ParameterError, find_definition
from evalspec.scoring.metrics.json_checks import JSON_FIELDS, explain_no_fields
from evalspec.scoring.metrics.sample_checks import build_check

_SHOWN = 100
_HAS: dict[Need, Callable[[Sample], object]] = {
    Need.EXPECTED: lambda sample: sample.references,
    Need.REFERENCE_CONTEXTS: lambda sample: sample.reference_contexts,
    Need.EXPECTED_TOOLS: lambda sample: sample.expected_tools is not None,
}


class CheckWatch(Struct):
    """Finds the problems of samples while they are read. `compares_json`: whether the dataset has json_fields."""

    context: BuildContext
    compares_json: bool
    noted: dict[Problem, Lacking] = field(default_factory=dict)
    count: int = 0

    def watch(self, samples: Iterable[Sample]) -> Iterator[Sample]:
        """Yield the samples, and note their problems."""
        for sample in samples:
            self.count += 1
            for problem in self._find_problems(sample) if sample.checks or self.compares_json else ():
                if problem in self.noted or len(self.noted) < _SHOWN:
                    self.noted.setdefault(problem, Lacking()).add(sample)
            yield sample

    def list_problems(self, shown_as: str) -> list[Problem]:
        """Return the problems, each once, with the lines of its samples."""
        return [
            replace(
                problem,
                message=f"{problem.message}{describe_others(lacking, self.count)}",
                file=shown_as,
                line=lacking.first[0].line,
            )
            for problem, lacking in self.noted.items()
        ]

    def _find_problems(self, sample: Sample) -> Iterator[Problem]:
        reads_json = self.compares_json
        for index, check in enumerate(sample.checks):
            place = f"checks[{index}]"
            try:
                built = build_check(check, self.context)
            except ParameterError as error:
                message, fix = split_fix(str(error))
                yield Problem(message, fix, field=f"{place}.{error.key}")
                continue
            except InvalidInput as error:
                yield from (replace(problem, field=place) for problem in error.problems)
                continue
            lacking = [need for need in built.needs if need in _HAS and not _HAS[need](sample)]
            for need in lacking:
                yield Problem(f"missing or empty, needed by {built.name} of checks", "add it", field=need.value)
            reads_json = reads_json or built.definition.name == JSON_FIELDS
        problem = explain_no_fields(sample) if reads_json else None
        if problem is not None:
            message, fix = split_fix(problem)
            yield Problem(message, fix, field="expected")


def watch_checks(sections: Sequence[WithThresholds], context: BuildContext) -> CheckWatch:
    """Return what looks at the samples of a dataset. `sections`: of the evaluation and of the dataset."""
    evaluation, own = sections
    metrics = own.metrics if own.metrics is not None else evaluation.metrics or []
    definitions = (find_definition(split_column(entry.name).base) for entry in metrics)
    return CheckWatch(context, any(one is not None and one.name == JSON_FIELDS for one in definitions))
