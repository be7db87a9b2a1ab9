"""Agreement and quality of a gold set, as `evalspec gold stats` and reports show them."""

from collections.abc import Sequence
from pathlib import Path

from evalspec.base.errors import InvalidInput, Problem
from evalspec.curation.gold.calibration import list_restarts, read_calibrations
from evalspec.curation.gold.flag_rates import rate_flags
from evalspec.curation.gold.gold_set import GoldSet, open_set
from evalspec.curation.gold.quality import (
    compare_sources,
    cover,
    list_disputes,
    list_dropped,
    summarise_disputes,
    summarise_settling,
)
from evalspec.curation.gold.ratings import VERDICTS, RatedRevision, count_left_out, list_revisions
from evalspec.curation.gold.sight import EVERYTHING, Sight
from evalspec.model import AgreementMeasure, Curation
from evalspec.verdict.stats.agreement import RatedCase, measure_agreement


def stats(root: Path | str) -> Curation:
    """Return agreement and quality of a gold set. `root`: its folder.

    Raises:
        InvalidInput: A file of the set is invalid.
    """
    return compute_curation(open_set(root))


def compute_curation(found: GoldSet, sight: Sight = EVERYTHING) -> Curation:
    """Return agreement and quality of a set that was read. Reviews that `sight` hides are not counted.

    Raises:
        InvalidInput: A calibration is invalid.
    """
    problems: list[Problem] = []
    calibrations = read_calibrations(found.root, found.config, problems)
    if problems:
        raise InvalidInput(problems)
    states, found = sight.count_states(found), sight.hide_reviews(found)
    revisions, entries = list_revisions(found), list(found.entries.values())
    disputes = list_disputes(revisions)
    config = found.config
    return Curation(
        name=config.name,
        demonstration=config.demonstration,
        triples=len(entries),
        states=states,
        agreement=tuple(_measure(revisions, config.rules.common)),
        left_out=count_left_out(revisions),
        flag_rates=tuple(rate_flags(revisions, list(config.people), config.rules, list_restarts(calibrations))),
        false_alarms=config.rules.false_alarms,
        disputes=tuple(summarise_disputes(disputes)),
        settling=summarise_settling(disputes),
        dropped=tuple(list_dropped(entries)),
        sources=tuple(compare_sources(entries, config.targets)),
        without_source=sum(entry.is_accepted and entry.source is None for entry in entries),
        coverage=cover(entries, config.targets.cell),
    )


def _measure(revisions: Sequence[RatedRevision], common: int) -> list[AgreementMeasure]:
    cases = [RatedCase(one.triple, one.verdicts) for one in revisions]
    return [
        AgreementMeasure(
            measure=one.measure,
            reviewers=one.raters,
            value=one.value,
            interval=one.interval,
            interval_method=one.interval_method,
            triples=one.units,
            unknown=one.unknown,
        )
        for one in measure_agreement(cases, VERDICTS, common)
    ]
