"""Comparisons of evaluations as documents, which a job computes for large ones."""

import json
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import msgspec

from evalspec.model.base import built
from evalspec.runs.store.derived import sign_run
from evalspec.service.evaluation_comparison import CompletedEvaluation, compare_evaluations
from evalspec.service.settings import Project

if TYPE_CHECKING:
    from evalspec.service.job_process import Work

KIND = "evaluation_comparison"


def run_evaluation_comparison(work: "Work") -> Mapping[str, Any]:
    """Execute a job of kind `evaluation_comparison`, and return the documents. The request: of `describe_request`."""
    return work.compute(lambda: render_comparison(work.project, work.job.request))


def describe_request(project: Project, evaluations: Sequence[CompletedEvaluation]) -> dict[str, Any]:
    """Return evaluations, the baseline first, as the request of a job. `runs`: changes with their files."""
    runs = [sign_run(project.store.runs / one.result.run_id) for one in evaluations]
    described: dict[str, Any] = json.loads(msgspec.json.encode({"evaluations": evaluations, "runs": runs}))
    return described


def render_comparison(project: Project, asked: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the comparison of a request as `table`, the answer of the API, and as `markdown`.

    Raises:
        InvalidInput: The evaluations have no metric in common.
        StoreError: A run cannot be read.
    """
    from evalspec.reports.markdown import render_view_markdown
    from evalspec.service.evaluation_comparison_view import build_table_view
    from evalspec.service.evaluation_table import EvaluationTable

    found = msgspec.convert(asked["evaluations"], built(list[CompletedEvaluation]))
    table = compare_evaluations(project, found[0], found[1:])
    markdown = render_view_markdown(build_table_view(table))
    return {"table": EvaluationTable.model_validate(table).model_dump(mode="json"), "markdown": markdown}
