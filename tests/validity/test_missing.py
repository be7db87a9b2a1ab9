"""How many samples may be missing before the others no longer speak for all."""

import pytest

from evalspec.verdict.validity.coverage import exceeds_share


@pytest.mark.parametrize(
    ("total", "share", "at_least", "allowed"),
    [
        (100, 0.1, 1, 10),
        (109, 0.1, 1, 10),
        (100, 0.29, 1, 29),
        (9, 0.1, 1, 1),
        (1, 0.1, 1, 1),
        (9, 0.1, 4, 4),
        (100, 0.1, 4, 10),
        (100, 0, 1, 0),
        (100, 0, 4, 0),
        (100, 1, 1, 100),
    ],
)
def test_a_share_may_be_missing_and_above_0_always_at_least_one(total, share, at_least, allowed):
    """29 % of 100 come out below 29 in floats."""
    assert not exceeds_share(allowed, total, share, at_least=at_least)
    assert exceeds_share(allowed + 1, total, share, at_least=at_least)
    if at_least == 1:
        assert exceeds_share(allowed, total, share) < exceeds_share(allowed + 1, total, share)
