"""Places for strata in proportion to their sizes."""

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evalspec.inputs.datasets.apportionment import apportion_by_remainder, apportion_nested

strata = st.lists(st.integers(0, 60), min_size=1, max_size=12).map(lambda sizes: dict(enumerate(sizes)))


@given(strata, st.integers(0, 400))
def test_nested_places_stay_within_one_of_the_quota(sizes, places):
    given_places, total = apportion_nested(sizes, places), sum(sizes.values())
    places = min(places, total)
    assert sum(given_places.values()) == places
    for stratum, size in sizes.items():
        assert abs(given_places[stratum] - Fraction(places * size, max(total, 1))) < 1
        assert given_places[stratum] <= size


@given(strata, st.integers(0, 200))
def test_more_places_take_none_away(sizes, places):
    fewer, more = apportion_nested(sizes, places), apportion_nested(sizes, places + 1)
    assert all(fewer[stratum] <= more[stratum] for stratum in sizes)


def test_the_paradox_of_alabama_is_why_the_nested_method_is_another():
    sizes = {"a": 6, "b": 6, "c": 2}
    assert apportion_by_remainder(sizes, 10)["c"] == 2
    assert apportion_by_remainder(sizes, 11)["c"] == 1, "one place more, and a stratum loses one"
    assert apportion_nested(sizes, 10)["c"] <= apportion_nested(sizes, 11)["c"]


@given(strata, st.integers(0, 400))
def test_largest_remainders_represent_each_stratum_if_the_size_allows(sizes, places):
    given_places = apportion_by_remainder(sizes, places)
    occupied = {stratum for stratum, size in sizes.items() if size}
    assert sum(given_places.values()) == min(places, sum(sizes.values()))
    assert all(given_places[stratum] <= size for stratum, size in sizes.items())
    if places >= len(occupied):
        assert all(given_places[stratum] for stratum in occupied)


@given(strata, st.integers(0, 400))
def test_largest_remainders_are_those_of_a_plain_definition(sizes, places):
    """The oracle holds where no stratum needs the place that it is owed."""
    total = sum(sizes.values())
    places = min(places, total)
    quotas = {stratum: Fraction(places * size, max(total, 1)) for stratum, size in sizes.items()}
    if any(size and quotas[stratum] < 1 for stratum, size in sizes.items()):
        return
    by_fraction = sorted(sizes, key=lambda stratum: (-(quotas[stratum] % 1), stratum))
    extra = by_fraction[: places - sum(int(quota) for quota in quotas.values())]
    assert apportion_by_remainder(sizes, places) == {one: int(quotas[one]) + (one in extra) for one in sizes}


@pytest.mark.parametrize("apportion", [apportion_nested, apportion_by_remainder])
def test_negative_numbers_are_refused(apportion):
    with pytest.raises(ValueError, match="negative"):
        apportion({"a": -1}, 1)
    with pytest.raises(ValueError, match="negative"):
        apportion({"a": 1}, -1)
