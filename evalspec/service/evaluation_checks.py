"""Checks of an evaluation before its job exists: the retriever, and every query against it."""

from http import HTTPStatus

from evalspec.base.registry import near_miss
from evalspec.inputs.manifest.loader import load_manifest
from evalspec.runs.planning.checks import validate_manifest
from evalspec.runs.planning.options import RunOptions
from evalspec.runs.planning.retrievers import name_variants
from evalspec.service.evaluations import EvaluationRequest, load_evaluation
from evalspec.service.problems import ApiProblem, not_found
from evalspec.service.run_jobs import resolve_manifest
from evalspec.service.settings import MANIFEST, Project


def check_retriever(project: Project, name: str) -> None:
    """Check that the manifest has a retriever of this name, which a posted dataset can be sent to.

    Raises:
        ApiProblem: 404: there is none. 422: it is a grid, or searches documents that a posted dataset does not have.
        InvalidInput: There is no manifest, or it is invalid.
    """
    from evalspec.targets.retrievers.opening import is_in_memory

    evaluation = load_manifest(project.folder / resolve_manifest(project.folder, MANIFEST)).manifest.spec.evaluation
    variants = name_variants(evaluation)
    if name in variants:
        if is_in_memory(variants[name][1]):
            detail = f"the retriever '{name}' searches documents in memory, but a posted dataset has no documents"
            fix = "evaluate a service, your own code or a database"
            raise ApiProblem(HTTPStatus.UNPROCESSABLE_ENTITY, f"{detail}. {fix}")
    elif name in evaluation.retrievers:
        shown = ", ".join(variant for variant, (key, _) in variants.items() if key == name)
        raise ApiProblem(HTTPStatus.UNPROCESSABLE_ENTITY, f"'{name}' is a grid of retrievers. choose one of {shown}")
    else:
        fix = near_miss(name, variants) if variants else f"declare spec.evaluation.retrievers in {MANIFEST}"
        raise not_found(f"no retriever is named '{name}'", fix)


def check_evaluation(project: Project, request: EvaluationRequest) -> None:
    """Check the manifest and every query of the dataset. Nothing is called.

    Raises:
        InvalidInput: Lists all problems.
    """
    validate_manifest(load_evaluation(project, request), RunOptions(depth=0))
