"""The same samples in two runs: attempts of each, and what only one side has scored."""

from statistics import fmean

from hypothesis import given
from hypothesis import strategies as st

from comparison.small_runs import make_dataset, make_sample
from evalspec.model import Attempt, Cause, SampleStatus, Score, ScoreStatus
from evalspec.verdict.comparison.pairing import pair_samples, pair_scores, to_paired


def asked(name, scores, passes=None):
    """A sample by the scores of its attempts; None: an attempt that was not scored."""
    known = [Score.failed("judge down") if score is None else Score.scored(score) for score in scores]
    attempts = tuple(
        Attempt(SampleStatus.ANSWERED, scores={"a": score}, passed=passed)
        for score, passed in zip(known, passes or [None] * len(known), strict=True)
    )
    values = [score.value for score in known if score.value is not None]
    mean = Score.scored(fmean(values)) if len(values) == len(known) else Score.failed("judge down")
    rate = None if passes is None else passes.count(True) / len(passes)
    return make_sample(name, {"a": mean}, attempts=attempts if len(attempts) > 1 else (), pass_rate=rate)


def pair(before, after):
    return pair_samples(make_dataset([before]), make_dataset([after]))


ATTEMPTS = st.lists(st.floats(0, 1), min_size=1, max_size=5)


@given(ATTEMPTS, ATTEMPTS)
def test_all_attempts_of_both_sides_count(before, after):
    dataset = make_dataset([asked("s", after)])
    scores = pair_scores(pair(asked("s", before), asked("s", after)).both, "a").pick()
    assert abs(scores.differences[0] - (fmean(after) - fmean(before))) < 1e-8
    paired = to_paired(scores, "a", dataset, None)
    assert paired.attempts == ([] if len(before) == len(after) == 1 else [[*before, *after]])
    assert paired.own == len(after)


def test_an_attempt_without_a_value_has_the_mean_of_the_others_of_both_runs():
    none = Score.not_applicable("no statement", Cause.JUDGE)
    attempts = tuple(Attempt(SampleStatus.ANSWERED, scores={"a": one}) for one in (Score.scored(0.2), none))
    before, after = make_sample("s", {"a": 0.2}, attempts=attempts), asked("s", [0.6, 1.0])
    paired = to_paired(pair_scores(pair(before, after).both, "a").pick(), "a", make_dataset([after]), None)
    assert paired.attempts == [[0.2, 0.6, 0.6, 1.0]]


def test_a_sample_of_which_only_the_mean_is_known_stays_as_it_is():
    before, after = asked("s", [0.2, 0.4]), asked("s", [1.0])
    bare = make_sample("s", {"a": 0.3, "b": 1.0}, attempts=before.attempts)
    assert pair(bare, after).both[0][0] is bare


def test_what_only_one_side_has_scored_is_counted_by_the_status_of_the_other():
    failed, none = Score.failed("judge down"), Score.not_applicable("no statement", Cause.JUDGE)
    columns = {
        "both": (1.0, 0.0),
        "lost": (1.0, failed),
        "went": (1.0, none),
        "came": (none, 1.0),
        "back": (failed, 1.0),
        "never": (failed, none),
        "left": (0.5, failed),
    }
    before, after = (
        make_dataset([make_sample(name, {"a": sides[side]}) for name, sides in columns.items()]) for side in (0, 1)
    )
    found = pair_scores(pair_samples(before, after).both, "a").pick()
    assert (len(found), found.lost) == (1, ("lost", "left"))
    assert found.only_baseline == {ScoreStatus.FAILED: ("lost", "left"), ScoreStatus.NOT_APPLICABLE: ("went",)}
    assert found.only_candidate == {ScoreStatus.FAILED: ("back",), ScoreStatus.NOT_APPLICABLE: ("came",)}
    part = pair_scores(pair_samples(before, after).both, "a").pick([0, 2])
    assert (len(part), part.only_baseline) == (1, {ScoreStatus.NOT_APPLICABLE: ("went",)})
    assert pair_scores(pair_samples(before, after).both, "b").pick().only_baseline == {}
