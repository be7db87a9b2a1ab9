"""Whether the interval of people's mean contains it, when labels were drawn in several ways and sittings."""

import pytest

from evalspec.model.corrections import DrawKind
from labels.stages import Stages

DRAWS = 60
STAGES = {
    "two random draws": [("random", 20), ("random", 20)],
    "within strata": [("stratified", 40)],
    "new after random": [("random", 20), ("new", 20)],
    "another judge": [("stratified", 30), ("judge", 0), ("new", 16)],
    "another agent": [("random", 40), ("judge", 30), ("new", 24)],
    "many sittings": [("random", 12), *[("judge", 10), ("new", 12)] * 4],
}


@pytest.mark.parametrize("stages", STAGES.values(), ids=list(STAGES))
def test_the_interval_contains_the_mean_of_people(stages):
    covered = 0
    for seed in range(DRAWS):
        made = Stages(120, seed, error=(0.15, 0.4)[seed % 2])
        for number, (kind, count) in enumerate(stages):
            if kind == "judge":
                made.judge(count)
            else:
                draw = DrawKind.RANDOM if kind == "random" else DrawKind.STRATIFIED
                made.sit(draw, count, seed=number, is_new=kind == "new")
        low, high = made.estimate().interval
        covered += low <= made.mean <= high
    assert covered >= 0.95 * DRAWS
