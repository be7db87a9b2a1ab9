"""Datasets that are posted to the service. Each version is a file: `.evalspec/inputs/datasets/NAME/VERSION.json`.

The files have a format that evalspec reads, so that a manifest can name them too. A version never changes.
"""

import json
import os
import re
import secrets
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from http import HTTPStatus
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct

from evalspec.base.errors import Problem, StoreError
from evalspec.base.jsonl import parse_json
from evalspec.base.output_files import replace_file, sync_folder
from evalspec.base.plural import counted
from evalspec.base.registry import near_miss
from evalspec.inputs.datasets.base import Source
from evalspec.inputs.datasets.load import discard, load_dataset
from evalspec.inputs.datasets.located import content_id
from evalspec.model.base import built
from evalspec.runs.store.files import PRIVATE_FILE, PRIVATE_FOLDER, store_errors
from evalspec.runs.store.run_store import prepare_root
from evalspec.service.dataset_versions import choose_version, encode_name, list_newest, read_versions
from evalspec.service.problems import ApiProblem, not_found
from evalspec.service.settings import Project

DATASETS_NAME = "datasets"
DATASET_FORMAT = "mixpeek"

_CONTENT = ("description", "metadata", "queries")
"""The keys of a document that a version is: if they are equal, so is the version."""
_FEW_QUERIES = 50
_FAULTS_SHOWN = 100
_FAULTS_IN_DETAIL = 3
_SUFFIX = ".json"
_OF_QUERY = re.compile(r"queries\[(\d+)\]\.?(.*)", re.DOTALL)


class DatasetSummary(Struct, frozen=True):
    """One version of a posted dataset, without its queries."""

    dataset_id: str
    dataset_name: str
    created_at: str
    query_count: int
    version: int = 0


class PostedDataset(Struct, frozen=True):
    """A version of a dataset after a post. `warnings`: what its author should know."""

    summary: DatasetSummary
    is_new: bool
    warnings: tuple[str, ...] = ()


def dataset_path(project: Project, name: str, version: int) -> Path:
    """Return the file of a version, relative to the project's folder."""
    return (project.root / DATASETS_NAME / encode_name(name) / f"{version}.json").relative_to(project.folder)


def post_dataset(project: Project, name: str, content: Mapping[str, Any]) -> PostedDataset:
    """Store a dataset as its next version, unless it equals the newest one. `content`: its keys besides the name.

    Raises:
        ApiProblem: 422: the dataset is invalid. Lists every fault with its query.
        StoreError: The file cannot be written or read.
    """
    folder = project.root / DATASETS_NAME / encode_name(name)
    document = {
        "dataset_id": f"ds_{content_id({'dataset_name': name})}",
        "dataset_name": name,
        "created_at": datetime.now(UTC).isoformat(timespec="milliseconds"),
        "query_count": len(content["queries"]),
        **content,
    }
    prepare_root(project.root)
    candidate = folder.parent / f".{secrets.token_hex(8)}.tmp"
    with store_errors(candidate):
        folder.parent.mkdir(PRIVATE_FOLDER, exist_ok=True)
        try:
            replace_file(candidate, [json.dumps(document, indent=1).encode()], mode=PRIVATE_FILE)
            warnings = _check(candidate, document["queries"])
            folder.mkdir(PRIVATE_FOLDER, exist_ok=True)
            version, is_new = _add_version(folder, candidate, document)
        finally:
            candidate.unlink(missing_ok=True)
    return PostedDataset(_summarize(folder / f"{version}.json", version), is_new, warnings)


def _check(path: Path, queries: Sequence[Any]) -> tuple[str, ...]:
    """Return the warnings about a dataset, or raise its faults."""
    data = load_dataset(Source(path, "", takes_files=False), DATASET_FORMAT, discard)
    problems = [*data.problems, *_list_irrelevant(queries)]
    if problems:
        faults = [_describe(problem, queries) for problem in problems[:_FAULTS_SHOWN]]
        hidden = len(problems) - len(faults)
        shown = "; ".join(f"{problem.field}: {problem.message}" for problem in problems[:_FAULTS_IN_DETAIL])
        more = f"; {len(problems) - _FAULTS_IN_DETAIL} more" if len(problems) > _FAULTS_IN_DETAIL else ""
        if hidden:
            faults.append({"message": f"{hidden} more faults", "fix": "fix those above first"})
        raise ApiProblem(HTTPStatus.UNPROCESSABLE_ENTITY, f"the dataset is invalid: {shown}{more}", errors=faults)
    warnings = [f"{problem.field}: {problem.message}. {problem.fix}" for problem in data.warnings]
    warnings[:0] = [f"{problem.message}. {problem.fix}" for problem in describe_few(len(queries))]
    return tuple(warnings[:_FAULTS_SHOWN])


def describe_few(queries: int) -> list[Problem]:
    """Return the warning about a dataset with few queries; none if it has enough."""
    message = f"only {counted(queries, 'query', 'queries')}: differences between retrievers will rarely exceed noise"
    return [Problem(message, f"aim for {_FEW_QUERIES} or more")] if queries < _FEW_QUERIES else []


def _list_irrelevant(queries: Sequence[Any]) -> Iterator[Problem]:
    """Yield a problem for each query without a relevant document. The format itself permits them."""
    for index, query in enumerate(queries):
        if isinstance(query, Mapping) and query.get("relevant_documents") == []:
            field = f"queries[{index}].relevant_documents"
            yield explain_irrelevant(field=field)


def explain_irrelevant(file: str = "", line: int | None = None, field: str = "relevant_documents") -> Problem:
    """Return the problem of a query without a relevant document."""
    message = "a query needs at least one relevant document"
    return Problem(message, "add one, or remove the query", file, line, field)


def _describe(problem: Problem, queries: Sequence[Any]) -> dict[str, Any]:
    """Return a problem as JSON, with the index and the id of its query."""
    described: dict[str, Any] = {"field": problem.field, "message": problem.message, "fix": problem.fix}
    found = _OF_QUERY.fullmatch(problem.field)
    if found:
        index = int(found[1])
        query = queries[index]
        described |= {"query": index, "field": found[2] or "query"}
        if isinstance(query, Mapping) and isinstance(query.get("query_id"), str):
            described["query_id"] = query["query_id"]
    return described


def _add_version(folder: Path, candidate: Path, document: Mapping[str, Any]) -> tuple[int, bool]:
    """Return the version with this content, and whether it was added. Posts at the same time get different versions."""
    while True:
        newest = max(read_versions(folder, _SUFFIX), default=0)
        if newest and _render_content(_read(folder / f"{newest}.json")) == _render_content(document):
            return newest, False
        try:
            os.link(candidate, folder / f"{newest + 1}.json")
        except FileExistsError:  # another post was faster; it may have had the same content
            continue
        sync_folder(folder)
        return newest + 1, True


def _render_content(document: Mapping[str, Any]) -> str:
    return json.dumps({key: document.get(key) for key in _CONTENT}, sort_keys=True)


def list_versions(project: Project, name: str) -> list[int]:
    """Return the versions of a dataset, oldest first. Empty if there is none of this name."""
    return read_versions(project.root / DATASETS_NAME / encode_name(name), _SUFFIX)


def find_summary(project: Project, name: str, version: int | None = None) -> DatasetSummary:
    """Return a version of a dataset without its queries, by default the newest.

    Raises:
        ApiProblem: 404: there is no such dataset or version.
        StoreError: The file cannot be read.
    """
    versions = list_versions(project, name)
    if not versions:
        known = [one.dataset_name for one in list_datasets(project)]
        fix = near_miss(name, known) if known else "post one first"
        raise not_found(f"there is no dataset '{name}' in namespace {project.namespace}", fix)
    chosen = choose_version(name, versions, version)
    return _summarize(project.folder / dataset_path(project, name, chosen), chosen)


def read_dataset(project: Project, name: str, version: int) -> dict[str, Any]:
    """Return the document of a version.

    Raises:
        StoreError: The file cannot be read.
    """
    return _read(project.folder / dataset_path(project, name, version))


def list_datasets(project: Project) -> list[DatasetSummary]:
    """Return the newest version of each dataset, by name.

    Raises:
        StoreError: A file cannot be read.
    """
    newest = list_newest(project.root / DATASETS_NAME, _SUFFIX)
    found = [_summarize(folder / f"{version}{_SUFFIX}", version) for folder, version in newest]
    return sorted(found, key=lambda one: one.dataset_name)


def _summarize(path: Path, version: int) -> DatasetSummary:
    with store_errors(path):
        content = path.read_bytes()
    try:
        found = msgspec.json.decode(content, type=built(DatasetSummary))
    except msgspec.DecodeError as error:
        raise StoreError(f"{path}: not a posted dataset: {error}. restore or remove the file") from error
    return msgspec.structs.replace(found, version=version)


def _read(path: Path) -> dict[str, Any]:
    with store_errors(path):
        content = path.read_bytes()
    try:
        document: dict[str, Any] = parse_json(content)
    except ValueError as error:
        raise StoreError(f"{path}: not a posted dataset: {error}. restore or remove the file") from error
    return document
