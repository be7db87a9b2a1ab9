"""Measures of agreement, against the packages and the tables that define them."""

import warnings

import krippendorff
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from evalspec import gold
from evalspec.curation.gold.event_files import write_event
from evalspec.curation.gold.protocol import resolve
from evalspec.curation.gold.schema import Event
from evalspec.verdict.stats.agreement import (
    MOST_PAIRS,
    RatedCase,
    measure_ac1,
    measure_agreement,
    measure_alpha,
    measure_kappa,
    measure_pairs,
    measure_raw,
)

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    from statsmodels.stats.inter_rater import cohens_kappa

VERDICTS = ("confirm", "flag")

GWET = ["11-1", "2232", "3333", "3333", "2222", "1234", "4444", "1121", "2222", "-555", "--11", "--3-"]
"""Four raters, twelve subjects, from Gwet (2014). Their AC1, alpha and raw agreement are 0.775, 0.743 and 0.818."""


def units_of(rows):
    """Units from texts with one character for each rater; `-` is no rating."""
    return [RatedCase(n, {f"r{k}": c for k, c in enumerate(row) if c != "-"}) for n, row in enumerate(rows)]


def test_the_published_example():
    units = units_of(GWET)
    found = [measure_ac1(units, "12345"), measure_alpha(units, "12345"), measure_raw(units)]
    assert [round(one.value, 5) for one in found] == [0.77544, 0.74342, 0.81818]
    assert {one.units for one in found} == {11}


ratings = st.lists(st.text("cf-", min_size=3, max_size=3), min_size=2, max_size=40)


@given(ratings)
def test_alpha_is_that_of_krippendorff(rows):
    units = units_of(rows)
    found = measure_alpha(units, "cf")
    table = [[{"c": 0, "f": 1}.get(row[rater], np.nan) for row in rows] for rater in range(3)]
    paired = [row for row in rows if len(row.replace("-", "")) > 1]
    if len({c for row in paired for c in row} - {"-"}) < 2:
        assert found.value is None
        assert found.unknown
    else:
        assert found.value == pytest.approx(krippendorff.alpha(table, level_of_measurement="nominal"))


@given(st.lists(st.sampled_from(["cc", "cf", "fc", "ff"]), min_size=2, max_size=60))
def test_kappa_is_that_of_statsmodels(rows):
    found = measure_kappa(units_of(rows), ("r0", "r1"), "cf", common=2)
    firsts, seconds = ({row[rater] for row in rows} for rater in range(2))
    if len(firsts) == 1 or len(seconds) == 1:
        assert found.value is None
        assert found.unknown
    else:
        table = [[rows.count(a + b) for b in "cf"] for a in "cf"]
        assert found.value == pytest.approx(cohens_kappa(table).kappa)


@pytest.mark.simulation
def test_the_intervals_cover_the_truth():
    """Two of three reviewers see each triple; a tenth of the triples is wrong, and they miss a third of those."""
    rng = np.random.default_rng(5)

    def draw(count):
        wrong = rng.random(count) < 0.15
        flags = rng.random((count, 2)) < np.where(wrong, 0.67, 0.04)[:, None]
        pairs = rng.integers(0, 3, count)
        return [
            RatedCase(n, {f"r{(k + pair) % 3}": VERDICTS[int(flag)] for k, flag in enumerate(row)})
            for n, (row, pair) in enumerate(zip(flags, pairs, strict=True))
        ]

    measures = [lambda units: measure_alpha(units, VERDICTS), lambda units: measure_ac1(units, VERDICTS)]
    large = draw(40_000)
    truths = [measure(large).value for measure in measures]
    covered = [0, 0]
    for _ in range(100):
        units = draw(120)
        for place, measure in enumerate(measures):
            low, high = measure(units).interval
            covered[place] += low <= truths[place] <= high
    assert min(covered) >= 88, covered  # 95 % less the noise of 100 draws


def test_revisions_of_one_triple_count_as_one():
    """The same ratings as revisions of few triples say less than of many."""
    rows = ["cc"] * 30 + ["cf"] * 10
    many = units_of(rows)
    few = [RatedCase(number % 10, unit.ratings) for number, unit in enumerate(many)]
    for measure in (measure_raw, lambda units: measure_alpha(units, "cf")):
        alone, together = measure(many), measure(few)
        assert alone.value == together.value
        assert together.units == 10
        assert alone.interval != together.interval


def test_what_is_undefined_says_why():
    alike = units_of(["cc"] * 40)
    raw, alpha, ac1, kappa = measure_agreement(alike, "cf", common=30)
    assert (raw.value, raw.interval, raw.interval_method) == (1.0, (pytest.approx(0.912, abs=1e-3), 1.0), "exact")
    assert (alpha.value, kappa.value) == (None, None)
    assert "chance agreement is undefined" in alpha.unknown
    assert "chance agreement is undefined" in kappa.unknown
    assert (ac1.value, ac1.interval) == (1.0, None)
    assert "needs 5 with disagreement, not 0" in ac1.unknown
    steady = measure_kappa(units_of(["cc"] * 30 + ["cf"] * 10), ("r0", "r1"), "cf", common=30)
    assert "r0 always says c" in steady.unknown
    nobody = measure_agreement(units_of(["c-", "-f"]), "cf", common=30)
    assert {(one.value, one.unknown) for one in nobody} == {(None, "nothing has two blind ratings")}


def test_kappa_needs_enough_triples_in_common():
    found = measure_agreement(units_of(["ccf"] * 29 + ["cf-"]), "cf", common=30)
    pairs = {one.raters: one.unknown for one in found if one.raters}
    assert pairs["r0", "r2"] == "29 of the 30 in common that are needed"
    assert "always says" in pairs["r0", "r1"]


def test_of_many_people_the_pairs_with_most_in_common_have_a_kappa():
    people = [f"p{number:04}" for number in range(1000)]
    cases = [RatedCase(number, dict.fromkeys(people, "c")) for number in range(2)]
    cases += [RatedCase(f"more {number}", {people[7]: "c", people[9]: "f"}) for number in range(40)]
    found = measure_pairs(cases, "cf", common=30)
    assert (found[0].raters, found[0].units) == ((people[7], people[9]), 42)
    assert len(found) == MOST_PAIRS + 1
    assert found[-1].unknown == "the other pairs of 1,000 people, with fewer in common, are not computed"
    assert len(measure_pairs(cases[2:], "cf", common=30)) == 1


def test_events_that_break_a_rule_do_not_count(curated):
    """A review of the person's own triple, of another content, and by a stranger, written by hand."""
    entry = curated.add("a")
    curated.say("a", ben="confirm", cleo="confirm")
    good = {"kind": "flag", "revision": 1, "content_hash": entry.content_hash, "by": "dan", "at": "2026-01-01"}
    for change in ({"by": "ada"}, {"content_hash": "0" * 32}, {"by": "eve"}):
        write_event(curated.root, "a", Event.model_validate({**good, "verdict": "wrong_block", **change}))
    found = gold.stats(curated.root)
    assert (found.agreement[0].value, found.agreement[0].triples, found.disputes) == (1.0, 1, ())
    write_event(curated.root, "a", Event.model_validate({**good, "verdict": "wrong_block"}))
    assert gold.stats(curated.root).agreement[0].value == pytest.approx(1 / 3)


def test_only_blind_reviews_count(curated):
    """Whoever reviews after two others, or after a decision, knows what they said."""
    for name in ("a", "b"):
        curated.add(name)
    curated.say("a", ben="confirm", cleo="confirm", dan="overstated")  # the flag reopens an accepted triple
    curated.say("b", ben="overstated")
    resolve(curated.root, "b", "ben", "upheld")
    resolve(curated.root, "b", "ada", "upheld")
    curated.say("b", cleo="confirm")
    found = gold.stats(curated.root)
    assert found.left_out == {"written after other reviews could be seen": 2}
    assert (found.agreement[0].value, found.agreement[0].triples) == (1.0, 1)
