"""A gold set that people curate: triples, reviews as files in git, and the states that follow from them.

    from evalspec import gold

    gold.review(gold.find_set("evals/gold/help"), "refund", "ben")

The commands call these functions. Names are imported on first use.
"""

from typing import TYPE_CHECKING

from evalspec.base.lazy_names import attach

if TYPE_CHECKING:
    from evalspec.curation.gold.authoring import create_set as create_set
    from evalspec.curation.gold.authoring import read_triple as read_triple
    from evalspec.curation.gold.authoring import revise_edited as revise_edited
    from evalspec.curation.gold.authoring import revise_words as revise_words
    from evalspec.curation.gold.calibration import calibrate as calibrate
    from evalspec.curation.gold.carrying import carry as carry
    from evalspec.curation.gold.curation import stats as stats
    from evalspec.curation.gold.disputes import check_numbers as check_numbers
    from evalspec.curation.gold.disputes import find_differences as find_differences
    from evalspec.curation.gold.gold_set import find_set as find_set
    from evalspec.curation.gold.gold_set import open_set as open_set
    from evalspec.curation.gold.gold_set import read_entry as read_entry
    from evalspec.curation.gold.gold_set import read_set as read_set
    from evalspec.curation.gold.granting import grant as grant
    from evalspec.curation.gold.importing import import_dataset as import_dataset
    from evalspec.curation.gold.linting import lint as lint
    from evalspec.curation.gold.passages import find_shared as find_shared
    from evalspec.curation.gold.passages import read_block_text as read_block_text
    from evalspec.curation.gold.pins import check_set as check_set
    from evalspec.curation.gold.pins import mark_stale as mark_stale
    from evalspec.curation.gold.pins import pin as pin
    from evalspec.curation.gold.protocol import add_triple as add_triple
    from evalspec.curation.gold.protocol import assign as assign
    from evalspec.curation.gold.protocol import resolve as resolve
    from evalspec.curation.gold.protocol import retire as retire
    from evalspec.curation.gold.protocol import review as review
    from evalspec.curation.gold.protocol import revise_triple as revise_triple
    from evalspec.curation.gold.review_session import ReviewSession as ReviewSession
    from evalspec.curation.gold.review_session import describe_outcome as describe_outcome
    from evalspec.curation.gold.reviewers import list_reviewable as list_reviewable
    from evalspec.curation.gold.run_samples import read_run_sample as read_run_sample
    from evalspec.curation.gold.schema import GoldTriple as GoldTriple
    from evalspec.curation.gold.schema import Person as Person
    from evalspec.curation.gold.slices import draw_slice as draw_slice
    from evalspec.curation.gold.slices import is_held_out as is_held_out
    from evalspec.curation.gold.slices import list_held_out as list_held_out
    from evalspec.curation.gold.slices import log_use as log_use
    from evalspec.curation.gold.slices import open_slice as open_slice
    from evalspec.curation.gold.slices import read_slices as read_slices
    from evalspec.curation.gold.slices import read_uses as read_uses
    from evalspec.curation.gold.splitting import propose_claims as propose_claims
    from evalspec.curation.gold.splitting import split as split

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
    "evalspec.curation.gold.importing": "import_dataset",
    "evalspec.curation.gold.linting": "lint",
    "evalspec.curation.gold.passages": "find_shared read_block_text",
    "evalspec.curation.gold.pins": "check_set mark_stale pin",
    "evalspec.curation.gold.protocol": "add_triple assign resolve retire review revise_triple",
    "evalspec.curation.gold.review_session": "ReviewSession describe_outcome",
    "evalspec.curation.gold.reviewers": "list_reviewable",
    "evalspec.curation.gold.run_samples": "read_run_sample",
    "evalspec.curation.gold.schema": "GoldTriple Person",
    "evalspec.curation.gold.slices": "draw_slice is_held_out list_held_out log_use open_slice read_slices read_uses",
    "evalspec.curation.gold.splitting": "propose_claims split",
}
"""By module: the names that it defines. Some modules are above this package. No name is also that of a module here,
which would hide it."""

__all__, __getattr__, __dir__ = attach(__name__, _NAMES)
