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

_PLACES = {
    "create_set": "evalspec.gold.authoring",
    "read_triple": "evalspec.gold.authoring",
    "revise_edited": "evalspec.gold.authoring",
    "calibrate": "evalspec.gold.calibration",
    "carry": "evalspec.gold.carrying",
    "stats": "evalspec.gold.curation",
    "check_numbers": "evalspec.gold.disputes",
    "find_differences": "evalspec.gold.disputes",
    "GoldTriple": "evalspec.gold.schema",
    "Person": "evalspec.gold.schema",
    "find_set": "evalspec.gold.gold_set",
    "open_set": "evalspec.gold.gold_set",
    "read_entry": "evalspec.gold.gold_set",
    "read_set": "evalspec.gold.gold_set",
    "grant": "evalspec.gold.granting",
    "log_use": "evalspec.gold.held_out",
    "read_uses": "evalspec.gold.held_out",
    "import_dataset": "evalspec.gold.importing",
    "lint": "evalspec.gold.linting",
    "find_shared": "evalspec.gold.passages",
    "read_block_text": "evalspec.gold.passages",
    "check_set": "evalspec.gold.pins",
    "mark_stale": "evalspec.gold.pins",
    "pin": "evalspec.gold.pins",
    "add_triple": "evalspec.gold.protocol",
    "assign": "evalspec.gold.protocol",
    "list_reviewable": "evalspec.gold.reviewers",
    "resolve": "evalspec.gold.protocol",
    "retire": "evalspec.gold.protocol",
    "review": "evalspec.gold.protocol",
    "revise_triple": "evalspec.gold.protocol",
    "revise_words": "evalspec.gold.authoring",
    "ReviewSession": "evalspec.gold.review_session",
    "describe_outcome": "evalspec.gold.review_session",
    "read_run_sample": "evalspec.gold.run_samples",
    "draw_slice": "evalspec.gold.slices",
    "is_held_out": "evalspec.gold.slices",
    "list_held_out": "evalspec.gold.slices",
    "open_slice": "evalspec.gold.slices",
    "read_slices": "evalspec.gold.slices",
    "propose_claims": "evalspec.gold.splitting",
    "split": "evalspec.gold.splitting",
    "export": "evalspec.api.gold_export",
    "measure_signal": "evalspec.api.gold_slices",
    "publish": "evalspec.api.gold_publish",
    "revoke": "evalspec.api.gold_revoke",
}
"""By name: the module that defines it. Some are above this package. No name is also that of a
module here, which would hide it."""

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
