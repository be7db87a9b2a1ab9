"""The retrievers that a manifest declares: their names, which are meant, and what is wrong with them."""

from collections.abc import Iterable

from evalspec.errors import InvalidInput, Problem
from evalspec.http.template import list_placeholders
from evalspec.manifest.retriever_schema import HttpTarget, PythonTarget, RetrieverTarget
from evalspec.manifest.schema import EvaluationConfig
from evalspec.manifest.yaml_source import Place
from evalspec.planning.draft import Draft
from evalspec.registry import near_miss
from evalspec.retrievers.builtin import RETRIEVERS
from evalspec.retrievers.http_target_checks import check_http
from evalspec.retrievers.presets import apply_preset
from evalspec.user_code.calls import check_target

RETRIEVERS_PLACE: Place = ("spec", "evaluation", "retrievers")
_ALL = "all"
_BUILTINS = ("bm25", "dense", "hybrid", "qdrant")
"""Those of evalspec itself: none of them reranks or has filters."""


def name_variants(evaluation: EvaluationConfig) -> dict[str, tuple[str, RetrieverTarget]]:
    """All targets of a manifest by the name of their variant, each with its key in the file."""
    return {
        f"{name}[{label}]" if label else name: (name, target)
        for name, variants in evaluation.retrievers.items()
        for label, target in variants.items()
    }


def choose_retrievers(evaluation: EvaluationConfig, names: Iterable[str]) -> list[str]:
    """The variants that `--retriever` means: one of them, all of a grid, or `all`; each once, in the order given.

    Raises:
        InvalidInput: a name is none of the manifest's.
    """
    known = name_variants(evaluation)
    chosen: dict[str, None] = {}
    for name in names:
        found = [variant for variant, (key, _) in known.items() if name in (variant, key, _ALL)]
        if not found:
            fix = near_miss(name, [*evaluation.retrievers, *known]) if known else "declare spec.evaluation.retrievers"
            raise InvalidInput(Problem(f"no retriever is named '{name}'", fix, field="--retriever"))
        chosen |= dict.fromkeys(found)
    return list(chosen)


def check_retrievers(draft: Draft) -> None:
    """Every target that the manifest declares, whoever uses it."""
    for name, variants in draft.loaded.manifest.spec.evaluation.retrievers.items():
        place = (*RETRIEVERS_PLACE, name)
        for keys, message in dict.fromkeys(found for target in variants.values() for found in _problems(draft, target)):
            draft.add((*place, *keys), *_split(message))


def _problems(draft: Draft, target: RetrieverTarget) -> list[tuple[tuple[str, ...], str]]:
    if isinstance(target, HttpTarget):
        return [(("http", *keys), message) for keys, message in check_http(target.http)]
    if isinstance(target, PythonTarget):
        found = check_target(draft.loaded.path.parent, target.python)
        return [(("python",), message) for message in found]
    if RETRIEVERS.find(target.builtin) is None:
        hint = RETRIEVERS.hint(target.builtin)
        return [(("builtin",), f"unknown builtin retriever '{target.builtin}'; {hint}")]
    return []


def _split(message: str) -> tuple[str, str]:
    what, _, fix = message.partition("; ")
    return what, fix


def can_rerank(target: RetrieverTarget) -> bool:
    """Whether it may rerank; what the user's own code and other packages can do is known when they are opened."""
    if isinstance(target, HttpTarget):
        return target.http.rerank is not None
    return isinstance(target, PythonTarget) or target.builtin not in _BUILTINS


def takes_filters(target: RetrieverTarget) -> bool:
    """Whether a search may be narrowed down; what the user's own code and other packages do with filters is theirs."""
    if isinstance(target, HttpTarget):
        search = apply_preset(target.http.search)
        return "filters" in list_placeholders([search.path, search.request])
    return isinstance(target, PythonTarget) or target.builtin not in _BUILTINS
