"""What the targets of a manifest can do, and their problems."""

import ast
from pathlib import Path

from evalspec.base.json_schema import find_schema_problems
from evalspec.inputs.manifest.loader import LoadedManifest
from evalspec.inputs.manifest.retriever_schema import Bm25Options, HttpTarget, PythonTarget, RetrieverTarget
from evalspec.inputs.manifest.yaml_source import Place, render_path
from evalspec.inputs.user_code.calls import check_target
from evalspec.inputs.user_code.modules import list_module_files, parse_file
from evalspec.runs.planning.draft import Draft, PlannedDataset, PlannedRetriever
from evalspec.targets.http.template import list_placeholders
from evalspec.targets.retrievers.bm25 import explain_language
from evalspec.targets.retrievers.http_target_checks import apply_preset, check_http
from evalspec.targets.retrievers.opening import RETRIEVERS
from evalspec.targets.retrievers.query_input import QUERY
from evalspec.targets.retrievers.stores import is_in_memory

_BUILTINS = ("bm25", "dense", "hybrid", "qdrant")
"""Built-in retrievers. None of them reranks or supports filters."""


def find_problems(loaded: LoadedManifest, target: RetrieverTarget) -> list[tuple[Place, str]]:
    """Return the problems of a target, each with its place in the target."""
    in_schema = [(("inputSchema", *keys), message) for keys, message in find_schema_problems(target.input_schema)]
    return [*in_schema, *_find_own_problems(loaded, target)]


def _find_own_problems(loaded: LoadedManifest, target: RetrieverTarget) -> list[tuple[Place, str]]:
    if isinstance(target, HttpTarget):
        return [(("http", *keys), message) for keys, message in check_http(target.http)]
    if isinstance(target, PythonTarget):
        found = check_target(loaded.path.parent, target.python)
        return [(("python",), message) for message in found]
    if isinstance(target, Bm25Options):
        refused = explain_language(target.language)
        return [] if refused is None else [(("language",), "; ".join(refused))]
    if RETRIEVERS.find(target.builtin) is None:
        hint = RETRIEVERS.hint(target.builtin)
        return [(("builtin",), f"unknown builtin retriever '{target.builtin}'; {hint}")]
    return []


def check_use(draft: Draft, planned: PlannedRetriever, dataset: PlannedDataset) -> None:
    """Report settings of a dataset that its retriever does not support, and documents that it lacks."""
    config, place, has_documents = dataset.config, dataset.place, bool(dataset.data.content.documents)
    is_http = isinstance(planned.target, HttpTarget)
    if planned.reranks and not can_rerank(planned.target):
        fix = f"describe {render_path(planned.place)}.http.rerank" if is_http else "use mode: retrieve"
        draft.add((*place, "mode"), f"the retriever '{planned.name}' cannot rerank", fix)
    if config.filters and not takes_filters(planned.target):
        fix = "add {{filters}} to its search request" if is_http else "remove them"
        draft.add((*place, "filters"), f"the retriever '{planned.name}' does not support filters", fix)
    if is_in_memory(planned.target) and not has_documents and not draft.options.has_replies:
        message = f"the retriever '{planned.name}' searches in memory, but dataset '{config.name}' has no documents"
        draft.add((*place, "retriever"), message, "set its corpus, or use another retriever")


def can_rerank(target: RetrieverTarget) -> bool:
    """Return whether a target may rerank. For user code and other packages, this is known only after opening."""
    if isinstance(target, HttpTarget):
        return target.http.rerank is not None
    return isinstance(target, PythonTarget) or target.builtin not in _BUILTINS


def takes_filters(target: RetrieverTarget) -> bool:
    """Return whether a target accepts filters. User code and other packages may do anything with them."""
    names = find_placeholders(target)
    return names is None or "filters" in names


def find_placeholders(target: RetrieverTarget) -> frozenset[str] | None:
    """Return what a target takes from a query, as the placeholders of a search request. None: everything, or unknown.

    User code and other packages receive everything.
    """
    if isinstance(target, HttpTarget):
        search = apply_preset(target.http.search)
        return frozenset(list_placeholders([search.path, search.request]))
    return None if isinstance(target, PythonTarget) or target.builtin not in _BUILTINS else frozenset({QUERY})


def deletes(target: RetrieverTarget, folder: Path) -> bool:
    """Return whether an external target can delete, as far as the manifest and modules show. `folder`: its place."""
    if isinstance(target, HttpTarget):
        return target.http.delete is not None
    if not isinstance(target, PythonTarget):
        return False
    return any(_defines_delete(file) for file in list_module_files(folder, target.python.partition(":")[0]))


def _defines_delete(file: Path) -> bool:
    try:
        tree = parse_file(file)
    except (OSError, ValueError, SyntaxError):  # another check reports it
        return False
    kinds = (ast.FunctionDef, ast.AsyncFunctionDef)
    return any(isinstance(node, kinds) and node.name == "delete" for node in ast.walk(tree))
