import random

import pytest
import scipy.stats

from compare.small_runs import make_dataset, make_run, make_sample, run_of
from evalspec.compare.drops import find_drop_problems
from evalspec.compare.regression import find_regressions
from evalspec.manifest.schema import CiGate
from evalspec.records import Score, VerdictStatus
from evalspec.stats.holm import compute_holm

PASS, FAIL = VerdictStatus.PASS, VerdictStatus.FAIL
INCOMPLETE, NOT_GATED = VerdictStatus.INCOMPLETE, VerdictStatus.NOT_GATED


def hold(before, after, fingerprint=None, **policy):
    gate = CiGate.model_validate({"baseline": "main", "maxDrop": 0.02} | policy)
    return find_regressions(before, after.datasets, gate, fingerprint or after.fingerprint)


def one_of(before, after, **policy):
    (outcome,) = hold(make_run({"a": before}), make_run({"a": after}), **policy)
    return outcome


def test_worse_by_more_than_chance_fails():
    outcome = one_of([1.0] * 40, [1.0] * 30 + [0.0] * 10)
    assert (outcome.status, outcome.delta, outcome.pairs) == (FAIL, -0.25, 40)
    assert outcome.p_value == pytest.approx(scipy.stats.binomtest(0, 10, alternative="less").pvalue)
    assert outcome.reason == "1 -> 0.75: worse by 0.25, maxDrop is 0.02 (p = 0.00098)"


def test_worse_within_noise_passes_and_says_what_could_be_shown():
    outcome = one_of([1.0] * 39 + [0.0], [1.0] * 37 + [0.0] * 2 + [1.0])
    assert outcome.status is PASS
    assert outcome.reason.startswith("0.975 -> 0.95: within noise (p = 0.5; 40 pairs can show a change of 0.1")


def test_without_alpha_the_drop_alone_decides():
    assert one_of([1.0] * 39 + [0.0], [1.0] * 37 + [0.0] * 2 + [1.0], alpha=None).status is FAIL
    assert one_of([1.0] * 3, [1.0, 1.0, 0.0], alpha=None).status is FAIL
    assert one_of([1.0] * 3, [1.0, 1.0, 1.0], alpha=None).status is PASS


@pytest.mark.parametrize(("pairs", "status"), [(1, INCOMPLETE), (4, INCOMPLETE), (5, FAIL)])
def test_a_drop_over_too_few_pairs_is_not_passed(pairs, status):
    """Five that all get worse are as likely as 1 in 32."""
    outcome = one_of([1.0] * pairs, [0.0] * pairs)
    assert outcome.status is status
    if status is INCOMPLETE:
        assert f"{pairs} pairs are too few to tell it from chance" in outcome.reason


def test_within_max_drop_or_better_passes():
    assert one_of([0.9] * 20, [0.89] * 20).reason == "0.9 -> 0.89: within maxDrop 0.02"
    assert one_of([0.9] * 20, [0.88] * 20).status is PASS  # equal to maxDrop, but for rounding
    assert one_of([0.5] * 20, [0.9] * 20).reason == "0.5 -> 0.9: not worse"


def test_less_is_better_for_some():
    worse, better = make_run({"hallucination": [0.1] * 9}), make_run({"hallucination": [0.0] * 9})
    assert hold(better, worse)[0].status is FAIL
    assert hold(worse, better)[0].status is PASS


def test_p_values_are_adjusted_over_all_metrics_of_all_datasets():
    draw = random.Random(1)

    def runs(shift):
        return run_of(
            *(
                make_dataset([make_sample(f"s{n}", {"a": draw.random() * shift, "b": 0.5}) for n in range(20)], name)
                for name in ("one", "two")
            )
        )

    before, after = runs(1), runs(0.8)
    outcomes = hold(before, after)
    alone = [
        hold(run_of(old), run_of(new))[0].p_value for old, new in zip(before.datasets, after.datasets, strict=True)
    ]
    tests = [alone[0] / 2, 1.0, alone[1] / 2, 1.0]  # of two tests the smaller was doubled
    assert [outcome.p_value for outcome in outcomes] == compute_holm(tests)


def test_one_number_is_for_scores_and_not_for_costs():
    columns = {"a": [0.5] * 6, "grade": [4.0] * 6, "latency_p95": [9.0] * 6, "tokens_mean": [0.5] * 6}
    run = make_run(columns)
    assert [outcome.metric for outcome in hold(run, run)] == ["a"]
    named = hold(run, run, maxDrop={"grade": 0.1, "LATENCY_P95": 5})
    assert [outcome.metric for outcome in named] == ["grade", "latency_p95"]


def test_a_percentile_by_its_difference_and_interval():
    draw = random.Random(2)
    fast = [draw.lognormvariate(6, 0.2) for _ in range(60)]
    before, slow = make_run({"latency_p95": fast}), make_run({"latency_p95": [value * 2 for value in fast]})
    limit = {"maxDrop": {"latency_p95": 50}}
    (failed,) = hold(before, slow, **limit)
    assert (failed.status, failed.p_value) == (FAIL, None)
    assert hold(slow, before, **limit)[0].status is PASS
    other = [draw.lognormvariate(6, 1.5) for _ in range(60)]
    noisy = [make_run({"latency_p95": values}) for values in (other, [*other[1:], max(other)])]
    (within,) = hold(*noisy, maxDrop={"latency_p95": 0})
    assert within.delta > 0
    assert (within.status, "within noise (the interval of the difference holds 0" in within.reason) == (PASS, True)
    few = [make_run({"latency_p95": values}) for values in (fast[:9], [value * 2 for value in fast[:9]])]
    assert hold(*few, **limit)[0].status is INCOMPLETE
    assert hold(*few, **limit, alpha=None)[0].status is FAIL


def test_samples_on_one_side_are_told():
    before = make_run({"a": [0.9] * 10})
    after = make_run({"a": [0.9] * 7})
    assert hold(before, after)[0].reason == "0.9 -> 0.9: not worse over 7 pairs, 3 only in the baseline"


def test_what_failed_to_be_scored_is_not_passed_over():
    lost = [Score.failed("judge down")]
    assert one_of([0.9] * 10, [0.9] * 9 + lost).status is INCOMPLETE
    assert one_of([0.9] * 10, [0.9] * 9 + lost, minCoverage=0.9).status is PASS
    assert one_of([0.9] * 10, lost * 10).reason == "no sample is scored in both runs"
    assert one_of([0.9] * 10, [0.0] * 9 + lost).status is FAIL  # not even a 1 would mend it
    assert one_of([0.9] * 10, [0.0] * 5 + lost * 5).status is FAIL
    assert one_of([0.9] * 30, [0.8] * 10 + lost * 20).status is INCOMPLETE  # 20 of 1.0 would


def test_what_is_skipped_is_not_gated():
    outcome = one_of([0.9] * 10, [Score.skipped("no judge (--no-judge)")] * 10)
    assert (outcome.status, outcome.reason) == (NOT_GATED, "no judge (--no-judge)")


def test_what_the_baseline_does_not_know():
    run = make_run({"a": [0.9] * 10})
    other = run_of(make_dataset([make_sample("s0", {"a": 1.0})], "other"))
    assert "the baseline has no dataset 'other': promote a new baseline" in hold(run, other)[0].reason
    named = hold(make_run({"b": [1.0]}), run, maxDrop={"a": 0.1})[0]
    assert (named.status, named.reason) == (INCOMPLETE, "the baseline has no scores of it: promote a new baseline")


def test_other_content_or_judge_is_incomplete():
    def run(sha, judge="1"):
        fingerprint = {
            "datasets": [{"name": "qa", "sha256": sha, "selectionSha256": sha}],
            "judge": {"model": "m"},
            "judgeSha256": judge,
        }
        samples = [make_sample(f"s{n}", {"a": 1.0, "faithfulness": 1.0}) for n in range(9)]
        return run_of(make_dataset(samples), fingerprint=fingerprint)

    assert {outcome.status for outcome in hold(run("x"), run("x"))} == {PASS}
    changed = hold(run("x"), run("y"), newFailures=0)
    assert {outcome.status for outcome in changed} == {INCOMPLETE}
    assert all(outcome.reason.endswith("promote a new baseline") for outcome in changed)
    assert [o.status for o in hold(run("x"), run("x", "2"))] == [INCOMPLETE, INCOMPLETE]  # `a` may be judged too


def passing(*rates):
    return run_of(make_dataset([make_sample(f"s{n}", {"a": 0.5}, pass_rate=rate) for n, rate in enumerate(rates)]))


@pytest.mark.parametrize(
    ("before", "after", "limit", "status", "said"),
    [
        ((1.0, 1.0, 0.0), (1.0, 1.0, 0.0), 0, PASS, "0 samples fail newly, newFailures is 0"),
        ((1.0, 1.0, 0.0), (1.0, 0.5, 0.0), 0, FAIL, "1 sample fails newly (s1), newFailures is 0"),
        ((1.0, 1.0, 0.0), (1.0, 0.0, 0.0), 1, PASS, "newFailures is 1"),
        ((1.0,) * 7, (0.0,) * 7, 1, FAIL, "7 samples fail newly (s0, s1, s2, s3, s4, …)"),
        ((1.0, 1.0), (1.0, None), 0, INCOMPLETE, "of 1 it is not known (s1)"),
        ((1.0, 1.0), (1.0, None), 1, PASS, ""),
        ((1.0, None), (1.0, 0.0), 0, INCOMPLETE, "of 1 it is not known (s1)"),
        ((1.0, None), (1.0, 1.0), 0, PASS, ""),
        ((None, None), (None, None), 0, INCOMPLETE, "it needs a threshold that a single reply can be held to"),
        ((1.0,), (), 0, INCOMPLETE, "no sample is in both runs, 1 only in the baseline"),
    ],
)
def test_new_failures(before, after, limit, status, said):
    outcome = hold(passing(*before), passing(*after), newFailures=limit)[-1]
    assert (outcome.metric, outcome.status) == (None, status)
    assert said in outcome.reason


def test_names_in_max_drop_are_checked():
    gate = CiGate.model_validate({"baseline": "main", "maxDrop": {"Recal@5": 0.1, "map": 0.1, "A": 0.1}})
    (problem,) = find_drop_problems(gate, ["Recall@5", "AP", "a"])
    assert problem == "maxDrop: no dataset computes 'Recal@5'. did you mean 'Recall@5'?"
    assert find_drop_problems(CiGate.model_validate({"baseline": "main", "maxDrop": 0.1}), []) == []
