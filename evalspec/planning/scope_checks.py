"""Retrievers whose scopes can be checked: one opened by its name, and those for which it is recommended."""

import ast
from collections.abc import Iterator
from pathlib import Path

from evalspec.errors import InvalidInput, Problem
from evalspec.manifest.loader import LoadedManifest
from evalspec.manifest.retriever_schema import HttpTarget, PythonTarget, RetrieverTarget
from evalspec.planning.agent import resolve_url
from evalspec.planning.draft import start_draft
from evalspec.planning.opening import resolve_target
from evalspec.planning.options import RunOptions
from evalspec.planning.retriever_targets import check_retrievers, choose_retrievers, name_variants
from evalspec.planning.services import EMBEDDINGS_PLACE, resolve_config, resolve_embeddings
from evalspec.planning.trust_checks import check_trust
from evalspec.retrievers.base import Deletes, Ingests, Retriever
from evalspec.retrievers.opening import open_retriever
from evalspec.retrievers.scope_check import Checkable
from evalspec.retrievers.vectors import TextVectors
from evalspec.user_code.modules import list_module_files


def open_checkable(loaded: LoadedManifest, name: str, url: str | None) -> Checkable:
    """One retriever of a manifest, with its references resolved and nothing called yet. `url`: of `--url`.

    Raises:
        InvalidInput: there is no such retriever, it is several, something is wrong with it, or it cannot be checked.
    """
    draft = start_draft(loaded, RunOptions(url=url))
    evaluation = loaded.manifest.spec.evaluation
    chosen = choose_retrievers(evaluation, [name])
    if len(chosen) > 1:
        message = f"'{name}' is {len(chosen)} retrievers, and one is checked at a time"
        raise InvalidInput(Problem(message, f"name one, as {chosen[0]}", field="NAME"))
    check_trust(draft)
    check_retrievers(draft)
    draft.raise_problems()
    target = resolve_target(draft, chosen[0], name_variants(evaluation)[chosen[0]][1])
    needs_url = isinstance(target, HttpTarget) and target.http.url is None
    address = resolve_url(loaded, url, draft.problems) if needs_url else None
    embeddings = resolve_embeddings(evaluation.embeddings)
    if not isinstance(target, HttpTarget | PythonTarget):
        embeddings = resolve_config(embeddings, EMBEDDINGS_PLACE, loaded, draft.problems)
    draft.services.configure(None, embeddings)
    draft.raise_problems()
    vectors = TextVectors(draft.services.embedder, {})
    return _require_checkable(open_retriever(target, address, loaded.path.parent, vectors), chosen[0])


def _require_checkable(retriever: Retriever, name: str) -> Checkable:
    if isinstance(retriever, Checkable):
        return retriever
    abilities = {"ingest": isinstance(retriever, Ingests), "delete": isinstance(retriever, Deletes)}
    missing = " or ".join(ability for ability, present in abilities.items() if not present)
    message = f"the retriever '{name}' cannot {missing}, so it has no scopes to check"
    fix = "it needs both, as calls under http or as methods of your class"
    raise InvalidInput(Problem(message, fix, field="NAME"))


def recommend_checks(loaded: LoadedManifest) -> Iterator[Problem]:
    """A note for each retriever of somebody else that can delete, as far as reading the manifest and modules tells."""
    for name, variants in loaded.manifest.spec.evaluation.retrievers.items():
        if any(_deletes(target, loaded.path.parent) for target in variants.values()):
            said = f"the retriever '{name}' deletes by scope prefix"
            yield Problem(said, f"see that it keeps scopes apart: evalspec retrievers check {name} {loaded.path}")


def _deletes(target: RetrieverTarget, folder: Path) -> bool:
    if isinstance(target, HttpTarget):
        return target.http.delete is not None
    if not isinstance(target, PythonTarget):
        return False
    return any(_defines_delete(file) for file in list_module_files(folder, target.python.partition(":")[0]))


def _defines_delete(file: Path) -> bool:
    try:
        tree = ast.parse(file.read_bytes())
    except (OSError, ValueError, SyntaxError):  # another check reports it
        return False
    kinds = (ast.FunctionDef, ast.AsyncFunctionDef)
    return any(isinstance(node, kinds) and node.name == "delete" for node in ast.walk(tree))
