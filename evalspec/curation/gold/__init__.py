"""A gold set that people curate: triples, reviews as files in git, and the states that follow from them.

    from evalspec import gold

    gold.review(gold.find_set("evals/gold/help"), "refund", "ben")

The commands call these functions. Names are imported on first use.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from evalspec.curation.gold.authoring import create_set, read_triple, revise_edited, revise_words
    from evalspec.curation.gold.calibration import calibrate
    from evalspec.curation.gold.carrying import carry
    from evalspec.curation.gold.curation import stats
    from evalspec.curation.gold.disputes import check_numbers, find_differences
    from evalspec.curation.gold.gold_set import find_set, open_set, read_entry, read_set
    from evalspec.curation.gold.granting import grant
    from evalspec.curation.gold.held_out import log_use, read_uses
    from evalspec.curation.gold.importing import import_dataset
    from evalspec.curation.gold.linting import lint
    from evalspec.curation.gold.passages import find_shared, read_block_text
    from evalspec.curation.gold.pins import check_set, mark_stale, pin
    from evalspec.curation.gold.protocol import add_triple, assign, resolve, retire, review, revise_triple
    from evalspec.curation.gold.review_session import ReviewSession, describe_outcome
    from evalspec.curation.gold.reviewers import list_reviewable
    from evalspec.curation.gold.run_samples import read_run_sample
    from evalspec.curation.gold.schema import GoldTriple, Person
    from evalspec.curation.gold.slices import draw_slice, is_held_out, list_held_out, open_slice, read_slices
    from evalspec.curation.gold.splitting import propose_claims, split

_NAMES = {
    "evalspec.api.gold_export": "export",
    "evalspec.api.gold_publish": "publish",
    "evalspec.api.gold_revoke": "revoke",
    "evalspec.api.gold_slices": "measure_signal",
    "evalspec.curation.gold.authoring": "create_set read_triple revise_edited revise_words",
    "evalspec.curation.gold.calibration": "calibrate",
    "evalspec.curation.gold.carrying": "carry",
    "evalspec.curation.gold.curation": "stats",
    "evalspec.curation.gold.disputes": "check_numbers find_differences",
    "evalspec.curation.gold.gold_set": "find_set open_set read_entry read_set",
    "evalspec.curation.gold.granting": "grant",
    "evalspec.curation.gold.held_out": "log_use read_uses",
    "evalspec.curation.gold.importing": "import_dataset",
    "evalspec.curation.gold.linting": "lint",
    "evalspec.curation.gold.passages": "find_shared read_block_text",
    "evalspec.curation.gold.pins": "check_set mark_stale pin",
    "evalspec.curation.gold.protocol": "add_triple assign resolve retire review revise_triple",
    "evalspec.curation.gold.review_session": "ReviewSession describe_outcome",
    "evalspec.curation.gold.reviewers": "list_reviewable",
    "evalspec.curation.gold.run_samples": "read_run_sample",
    "evalspec.curation.gold.schema": "GoldTriple Person",
    "evalspec.curation.gold.slices": "draw_slice is_held_out list_held_out open_slice read_slices",
    "evalspec.curation.gold.splitting": "propose_claims split",
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
        raise AttributeError(f"module 'evalspec.curation.gold' has no attribute '{name}'")
    return getattr(import_module(_PLACES[name]), name)


def __dir__() -> list[str]:
    return __all__
