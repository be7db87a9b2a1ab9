"""A gold set that people curate: triples, reviews as files in git, and the states that follow from them.

    from evalspec import gold

    gold.review(gold.find_set("evals/gold/help"), "refund", "ben")

The commands call these functions. Names are imported on first use.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from evalspec.gold.authoring import create_set, read_triple, revise_edited, revise_words
    from evalspec.gold.calibration import calibrate
    from evalspec.gold.carrying import carry
    from evalspec.gold.curation import stats
    from evalspec.gold.disputes import check_numbers, find_differences
    from evalspec.gold.gold_set import find_set, open_set, read_entry, read_set
    from evalspec.gold.granting import grant
    from evalspec.gold.held_out import log_use, read_uses
    from evalspec.gold.importing import import_dataset
    from evalspec.gold.linting import lint
    from evalspec.gold.passages import find_shared, read_block_text
    from evalspec.gold.pins import check_set, mark_stale, pin
    from evalspec.gold.protocol import add_triple, assign, resolve, retire, review, revise_triple
    from evalspec.gold.review_session import ReviewSession, describe_outcome
    from evalspec.gold.reviewers import list_reviewable
    from evalspec.gold.run_samples import read_run_sample
    from evalspec.gold.schema import GoldTriple, Person
    from evalspec.gold.slices import draw_slice, is_held_out, list_held_out, open_slice, read_slices
    from evalspec.gold.splitting import propose_claims, split

_NAMES = {
    "evalspec.api.gold_export": "export",
    "evalspec.api.gold_publish": "publish",
    "evalspec.api.gold_revoke": "revoke",
    "evalspec.api.gold_slices": "measure_signal",
    "evalspec.gold.authoring": "create_set read_triple revise_edited revise_words",
    "evalspec.gold.calibration": "calibrate",
    "evalspec.gold.carrying": "carry",
    "evalspec.gold.curation": "stats",
    "evalspec.gold.disputes": "check_numbers find_differences",
    "evalspec.gold.gold_set": "find_set open_set read_entry read_set",
    "evalspec.gold.granting": "grant",
    "evalspec.gold.held_out": "log_use read_uses",
    "evalspec.gold.importing": "import_dataset",
    "evalspec.gold.linting": "lint",
    "evalspec.gold.passages": "find_shared read_block_text",
    "evalspec.gold.pins": "check_set mark_stale pin",
    "evalspec.gold.protocol": "add_triple assign resolve retire review revise_triple",
    "evalspec.gold.review_session": "ReviewSession describe_outcome",
    "evalspec.gold.reviewers": "list_reviewable",
    "evalspec.gold.run_samples": "read_run_sample",
    "evalspec.gold.schema": "GoldTriple Person",
    "evalspec.gold.slices": "draw_slice is_held_out list_held_out open_slice read_slices",
    "evalspec.gold.splitting": "propose_claims split",
}
"""By module: the names that it defines. Some modules are above this package. No name is also that of a module here,
which would hide it."""
_PLACES = {name: module for module, names in _NAMES.items() for name in names.split()}

__all__ = [
    "GoldTriple",
    "Person",
    "ReviewSession",
    "add_triple",
    "assign",
    "calibrate",
    "carry",
    "check_numbers",
    "check_set",
    "create_set",
    "describe_outcome",
    "draw_slice",
    "export",
    "find_differences",
    "find_set",
    "find_shared",
    "grant",
    "import_dataset",
    "is_held_out",
    "lint",
    "list_held_out",
    "list_reviewable",
    "log_use",
    "mark_stale",
    "measure_signal",
    "open_set",
    "open_slice",
    "pin",
    "propose_claims",
    "publish",
    "read_block_text",
    "read_entry",
    "read_run_sample",
    "read_set",
    "read_slices",
    "read_triple",
    "read_uses",
    "resolve",
    "retire",
    "review",
    "revise_edited",
    "revise_triple",
    "revise_words",
    "revoke",
    "split",
    "stats",
]


def __getattr__(name: str) -> Any:
    if name not in _PLACES:
        raise AttributeError(f"module 'evalspec.gold' has no attribute '{name}'")
    return getattr(import_module(_PLACES[name]), name)


def __dir__() -> list[str]:
    return __all__
