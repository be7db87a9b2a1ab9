import random
import re

import pytest
import scipy.stats
from msgspec.structs import replace
from pydantic import ValidationError

from comparison.small_runs import make_dataset, make_run, make_sample, run_of
from evalspec.inputs.manifest.gate_schema import CiGate
from evalspec.model import Attempt, Cause, SampleStatus, Score, Threshold, VerdictStatus
from evalspec.scoring.metrics.base import METRICS
from evalspec.verdict.comparison.baseline import Baseline
from evalspec.verdict.comparison.drops import check_max_drop
from evalspec.verdict.comparison.regression import decide_regressions
from evalspec.verdict.validity import changes
from evalspec.verdict.validity.estimates import Estimate
from evalspec.verdict.wording import MARKS, mark_regression
from fingerprints import as_fingerprint

PASS, FAIL = VerdictStatus.PASS, VerdictStatus.FAIL
INCOMPLETE, NOT_GATED = VerdictStatus.INCOMPLETE, VerdictStatus.NOT_GATED


def hold(before, after, fingerprint=None, removed=None, **policy):
    gate = CiGate.model_validate({"baseline": "main", "maxDrop": 0} | policy)
    described = as_fingerprint(fingerprint) if fingerprint else after.fingerprint
    return decide_regressions(Baseline(before), after.datasets, gate, described, removed=removed)


def one_of(before, after, **policy):
    (outcome,) = hold(make_run({"a": before}), make_run({"a": after}), **policy)
    return outcome


def test_worse_by_more_than_chance_fails():
    outcome = one_of([1.0] * 40, [1.0] * 30 + [0.0] * 10)
    assert (outcome.status, outcome.delta, outcome.pairs) == (FAIL, -0.25, 40)
    assert outcome.p_value == pytest.approx(scipy.stats.binomtest(0, 10, alternative="less").pvalue)
    assert outcome.reason == "worse by 0.250, maxDrop is 0 (p < 0.001, 40 samples)"


def test_the_p_value_beside_max_drop_tests_max_drop():
    """Ten losses of 40 are a drop, and beyond 0.05, but a true drop of 0.2 gives as many in two runs of ten."""
    scores = [1.0] * 40, [1.0] * 30 + [0.0] * 10
    found = [one_of(*scores, maxDrop=limit) for limit in (0.05, 0.2)]
    assert [outcome.status for outcome in found] == [FAIL, PASS]
    assert 0.001 < found[0].p_value < 0.01
    assert 0.2 < found[1].p_value < 0.5
    assert found[1].reason.startswith("worse by 0.250, beyond maxDrop 0.2, not significant (p = 0.")


def test_a_true_drop_of_just_the_limit_seldom_fails():
    """Every number of losses and gains at a true drop of 0.1: today's test of 0 would fail half of these runs."""
    wrong = 0.0
    for lost in range(61):
        for gained in range(0, 61 - lost, 1):
            chance = scipy.stats.multinomial.pmf([lost, gained, 60 - lost - gained], 60, [0.12, 0.02, 0.86])
            if chance > 1e-6:
                before = [1.0] * lost + [0.0] * gained + [1.0] * (60 - lost - gained)
                after = [0.0] * lost + [1.0] * gained + [1.0] * (60 - lost - gained)
                wrong += chance * (one_of(before, after, maxDrop=0.1).status is FAIL)
    assert 0.01 < wrong <= 0.05


def test_worse_within_noise_passes_and_says_what_cannot_be_ruled_out():
    outcome = one_of([1.0] * 39 + [0.0], [1.0] * 37 + [0.0] * 2 + [1.0])
    assert (outcome.status, outcome.proven) == (PASS, False)
    said = "worse by 0.025, not significant (p = 0.500): only 3 samples changed, but at least 5 are needed; a drop up"
    assert outcome.reason.startswith(said)
    assert outcome.reason.endswith("cannot be ruled out (40 samples)")
    assert 0.1 < -outcome.interval[0] < 0.2


def bound_of(outcome):
    return float(re.search(r"up to (-?[0-9.]+)", outcome.reason)[1])


def test_what_cannot_be_ruled_out_and_what_is_excluded_have_one_bound():
    """The one-sided bound at 1 - alpha, in both modes: the two-sided interval is wider."""
    scores = [1.0] * 36 + [0.0] * 4, [1.0] * 32 + [0.0] * 4 + [1.0] * 4
    drop, strict = one_of(*scores, maxDrop=0.05), not_worse(*scores)
    assert bound_of(drop) == bound_of(strict) < -drop.interval[0]
    bound = bound_of(drop)
    for limit, proven in ((bound + 0.01, True), (bound - 0.01, False)):
        assert one_of(*scores, maxDrop=limit).proven is proven
        assert (one_of(*scores, maxDrop=limit, regression="notWorse").status is PASS) is proven


def test_alpha_of_a_half_and_more_is_no_error():
    assert one_of([1.0] * 9, [1.0] * 9, alpha=0.9).status is PASS


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
        assert "cannot show a drop at alpha 0.05: at least 5 are needed" in outcome.reason


def in_documents(values, count, metrics=1):
    """Samples of `count` documents, each with all of one document's scores."""
    samples = [
        make_sample(f"s{n}", dict.fromkeys("abcdefgh"[:metrics], value), metadata={"doc": n % count})
        for n, value in enumerate(values)
    ]
    return run_of(make_dataset(samples, cluster="doc"))


def test_few_documents_cannot_pass_a_drop_of_all_their_samples():
    """40 samples of 4 documents are four independent ones: that all four fall is 1 in 16 by luck."""
    (outcome,) = hold(in_documents([0.9] * 40, 4), in_documents([0.35] * 40, 4))
    assert (outcome.status, outcome.units, outcome.pairs) == (INCOMPLETE, 4, 40)
    assert outcome.reason == (
        "worse by 0.550, maxDrop is 0, but only 40 samples in 4 clusters cannot show a drop at alpha 0.05: "
        "at least 5 are needed"
    )
    assert hold(in_documents([0.9] * 40, 5), in_documents([0.35] * 40, 5))[0].status is FAIL
    assert {o.status for o in hold(in_documents([0.9] * 40, 5, 8), in_documents([0.35] * 40, 5, 8))} == {FAIL}


def halved(values, units):
    """The values of 40 samples in 10 documents, of which `units` documents fell."""
    return [value - 0.5 * (n % 10 < units) for n, value in enumerate(values)]


@pytest.mark.parametrize(("units", "said"), [(4, "only 4 clusters changed, but at least 5 are needed"), (5, None)])
def test_a_drop_that_too_few_clusters_share_is_never_significant_and_says_so(units, said):
    (outcome,) = hold(in_documents([0.9] * 40, 10), in_documents(halved([0.9] * 40, units), 10))
    assert outcome.status is (PASS if said else FAIL)
    if said:
        assert outcome.reason.startswith(f"worse by 0.200, not significant (p = 0.062): {said}; a drop up to ")
        assert outcome.proven is False


def test_clusters_whose_gains_and_losses_cancel_have_not_changed():
    after = [0.9 - 0.5 * (n in (0, 1, 2)) + 0.1 * (n in (3, 13)) - 0.2 * (n == 23) for n in range(40)]
    (outcome,) = hold(in_documents([0.9] * 40, 10), in_documents(after, 10))
    assert "only 3 clusters changed" in outcome.reason


def test_within_max_drop_the_number_of_changed_samples_does_not_matter():
    assert "changed" not in one_of([0.9] * 40, [0.4] + [0.9] * 39, maxDrop=0.1).reason


def test_never_is_said_of_no_number_that_can_be_significant():
    """By Bonferroni eight metrics need eight changed samples; maxT finds one that fell in six, or all in five."""
    others = [{metric: n * k % 7 / 7 for k, metric in enumerate("bcdefgh", 2)} for n in range(40)]
    before = run_of(
        make_dataset([make_sample(f"s{n}", {"a": 0.9} | dict.fromkeys("bcdefgh", n % 7 / 7)) for n in range(40)])
    )
    after = run_of(make_dataset([make_sample(f"s{n}", {"a": 0.9 - 0.5 * (n < 6)} | others[n]) for n in range(40)]))
    assert hold(before, after)[0].status is FAIL
    together = hold(in_documents([0.9] * 40, 10, 8), in_documents(halved([0.9] * 40, 5), 10, 8))
    assert {outcome.status for outcome in together} == {FAIL}
    few = hold(in_documents([0.9] * 40, 10, 8), in_documents(halved([0.9] * 40, 4), 10, 8))
    assert all("only 4 clusters changed, but at least 5 are needed" in outcome.reason for outcome in few)


def test_few_unchanged_samples_pass_with_a_caution():
    outcome = one_of([0.9] * 3, [0.9] * 3)
    assert (outcome.status, outcome.proven) == (PASS, False)
    assert "cannot be ruled out (only 3 samples)" in outcome.reason
    assert "(only 4 samples)" in one_of([0.9] * 4, [0.9] * 4).reason
    assert one_of([0.9] * 5, [0.9] * 5).reason.endswith("(5 samples)")


def test_within_max_drop_or_better_passes():
    assert one_of([0.9] * 20, [0.89] * 20, maxDrop=0.02).status is PASS
    assert one_of([0.9] * 20, [0.88] * 20, maxDrop=0.02).status is PASS  # equal to maxDrop, but for rounding
    better = one_of([0.5] * 20, [0.9] * 20, maxDrop=0.02)
    assert (better.status, better.proven, better.reason) == (PASS, True, "a drop of 0.02 is excluded (20 samples)")


def not_worse(before, after, **policy):
    return one_of(before, after, regression="notWorse", maxDrop=0.05, **policy)


def test_not_worse_passes_only_where_the_drop_is_excluded():
    assert not_worse([1.0] * 200, [1.0] * 200).status is PASS
    undecided = not_worse([1.0] * 20, [1.0] * 20)
    assert (undecided.status, undecided.proven) == (INCOMPLETE, False)
    assert re.match(r"a drop up to 0.\d+ cannot be ruled out, and maxDrop is 0.05", undecided.reason)
    assert not_worse([1.0] * 200, [0.0] * 40 + [1.0] * 160).status is FAIL
    draw = random.Random(8)
    noisy = [draw.choice([0.6, 0.8, 1.0]) for _ in range(60)]
    some = not_worse(noisy, draw.sample(noisy, 60))
    assert some.status is INCOMPLETE
    needed = int(re.search(r"about (\d+) samples would exclude it", some.reason.replace(",", ""))[1])
    assert 100 < needed < 2000


def test_not_worse_says_the_measured_drop_and_no_number_of_samples_that_there_already_are():
    worse = one_of([1.0] * 24, [0.0] * 5 + [1.0] * 19, regression="notWorse", maxDrop=0.3)
    assert worse.status is INCOMPLETE
    assert re.fullmatch(
        r"worse by 0.208; a drop up to 0.3\d+ cannot be ruled out, and maxDrop is 0.3 \(24 samples\)", worse.reason
    )


@pytest.mark.parametrize("policy", [{"maxDrop": 0}, {}, {"maxDrop": {"a": 0.0}}, {"maxDrop": 0.1, "alpha": None}])
def test_not_worse_needs_a_drop_to_exclude(policy):
    with pytest.raises(ValidationError, match="notWorse needs"):
        CiGate.model_validate({"baseline": "main", "regression": "notWorse"} | policy)


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
    adjusted = [outcome.p_value for outcome in outcomes]
    assert adjusted[1] == adjusted[3] == 1.0  # nothing changed
    for together, single in zip((adjusted[0], adjusted[2]), alone, strict=True):
        assert single <= together <= 2 * single + 0.02


def test_one_number_is_for_scores_and_not_for_costs():
    columns = {"a": [0.5] * 6, "grade": [4.0] * 6, "latency_p95": [9.0] * 6, "tokens_mean": [0.5] * 6}
    run = make_run(columns)
    assert [outcome.metric for outcome in hold(run, run)] == ["a"]
    named = hold(run, run, maxDrop={"grade": 0.1, "LATENCY_P95": 5})
    assert [outcome.metric for outcome in named] == ["grade", "latency_p95"]


def test_latencies_are_decided_by_value():
    """Two runs of the same agent have other latencies on a busier machine: no test can tell the two apart."""
    fast = [200.0 + n for n in range(60)]
    before, slow = make_run({"latency_p95": fast}), make_run({"latency_p95": [value + 80 for value in fast]})
    (failed,) = hold(before, slow, maxDrop={"latency_p95": 50})
    assert (failed.status, failed.p_value, failed.interval) == (FAIL, None, None)
    assert failed.reason.startswith("worse by 80.0 ms, maxDrop is 50 (decided by value: latencies depend on")
    assert hold(before, slow, maxDrop={"latency_p95": 80})[0].status is PASS
    assert hold(slow, before, maxDrop={"latency_p95": 0})[0].status is PASS


def test_samples_on_one_side_are_told():
    before = make_run({"a": [0.9] * 40})
    after = make_run({"a": [0.9] * 30})
    chosen = hold(before, after, removed={})[0]
    assert chosen.status is PASS
    assert chosen.reason.endswith("(30 samples, 10 only in the baseline)")
    gone = hold(before, after)[0]
    assert (gone.status, gone.reason) == (
        INCOMPLETE,
        "10 samples of the baseline are gone from the dataset, which could change the outcome: promote a new baseline, "
        "or allow the share with maxRemoved",
    )
    assert hold(before, after, maxRemoved=0.25)[0].status is PASS
    assert hold(before, after, maxRemoved=0.2)[0].status is INCOMPLETE
    few = make_run({"a": [0.9] * 37})
    assert hold(before, few)[0].status is PASS, "three at their worst would be no significant drop"
    assert hold(before, few, alpha=None)[0].status is INCOMPLETE
    assert hold(before, few, maxDrop=0.1, alpha=None)[0].status is PASS
    assert hold(before, few, maxDrop=0.1, regression="notWorse")[0].status is INCOMPLETE


def test_what_failed_to_be_scored_is_not_passed_over():
    lost = [Score.failed("judge down")]
    assert one_of([0.9] * 10, [0.9] * 9 + lost).status is INCOMPLETE
    assert one_of([0.9] * 10, [0.9] * 9 + lost, minCoverage=0.9).status is PASS
    assert one_of([0.9] * 10, lost * 10).reason.startswith("no sample is scored in both runs")
    assert one_of([0.9] * 10, [0.0] * 9 + lost).status is FAIL  # not even a 1 would save it
    assert one_of([0.9] * 30, [0.8] * 10 + lost * 20).status is INCOMPLETE  # 20 of 1.0 would


@pytest.mark.parametrize("gone", [Score.failed("judge down"), Score.not_applicable("no statement", Cause.JUDGE)])
@pytest.mark.parametrize("swapped", [False, True])
def test_samples_scored_in_one_run_only_are_counted_and_too_many_are_not_passed_over(gone, swapped):
    """35 of 40 lost passed with a check mark."""
    sides = [0.9] * 40, [0.9] * 5 + [gone] * 35
    outcome = one_of(*(reversed(sides) if swapped else sides), minCoverage=0.1)
    assert (outcome.status, outcome.unpaired, outcome.pairs) == (INCOMPLETE, 35, 5)
    assert outcome.reason == "35 of 40 samples are scored in one run only, maxNotApplicable is 0.1"
    few = one_of([0.9] * 40, [0.9] * 37 + [gone] * 3, minCoverage=0.9)
    assert (few.status, few.unpaired) == (PASS, 3)
    assert "3 scored in one run only" in few.reason
    assert one_of([0.9] * 4, [0.9] * 3 + [gone], minCoverage=0.5).status is PASS  # one is always allowed


def test_what_is_skipped_is_not_gated():
    outcome = one_of([0.9] * 10, [Score.skipped("no judge (--no-judge)")] * 10)
    assert (outcome.status, outcome.reason) == (NOT_GATED, "no judge (--no-judge)")


def test_what_the_baseline_does_not_know():
    run = make_run({"a": [0.9] * 10})
    other = run_of(make_dataset([make_sample("s0", {"a": 1.0})], "other"))
    assert "the baseline has no dataset 'other': promote a new baseline" in hold(run, other)[0].reason
    named = hold(make_run({"b": [1.0]}), run, maxDrop={"a": 0.1})[0]
    assert (named.status, named.reason) == (INCOMPLETE, "the baseline has no scores for it: promote a new baseline")


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


def passing(*samples):
    """Each sample is the outcomes of its attempts, `?` where one is not known, under a limit of 0.5."""
    return limited([passing_sample(f"s{n}", outcomes) for n, outcomes in enumerate(samples)], a=0.5)


def limited(samples, status=PASS, **limits):
    dataset = make_dataset(samples)
    known = [Threshold(name, min=least) for name, least in limits.items() if name in dataset.metrics]
    return run_of(
        replace(
            dataset,
            thresholds=tuple(replace(limit, status=status, value=None, scored=0, expected=0) for limit in known),
        )
    )


def passing_sample(name, outcomes):
    found = [{"+": Score.scored(1.0), "-": Score.scored(0.0), "?": Score.failed("no judge")}[one] for one in outcomes]
    attempts = tuple(Attempt(SampleStatus.ANSWERED, scores={"a": score}) for score in found)
    return make_sample(name, {"a": found[0]}, attempts=attempts if len(attempts) > 1 else ())


@pytest.mark.parametrize(
    ("before", "after", "limit", "status", "said"),
    [
        (("+++",) * 9, ("+",) * 9, 0, PASS, "0 new failures, newFailures is 0"),
        (
            ("+++",) * 9,
            ("-",) * 3 + ("+",) * 6,
            0,
            FAIL,
            "3 new failures (s0, s1, s2), more than the 0 allowed (p = 0.016)",
        ),
        (("+++",) * 9, ("-",) * 3 + ("+",) * 6, 3, PASS, "newFailures is 3"),
        (
            ("+++",) * 7,
            ("---",) * 7,
            1,
            FAIL,
            "7 new failures (s0, s1, s2, s3, s4, …), more than the 1 allowed (p < 0.001)",
        ),
        (
            ("+++",) * 9,
            ("-",) + ("+",) * 8,
            0,
            PASS,
            "1 new failure (s0), more than the 0 allowed, but not significant (p = 0.250); "
            "more attempts in both runs would settle it",
        ),
        (("++++",) * 9, ("----",) + ("+",) * 8, 0, FAIL, "1 new failure (s0), more than the 0 allowed (p = 0.014)"),
        (("+",) * 9, ("-",) * 5 + ("+",) * 4, 0, FAIL, "(p = 0.031)"),
        (("+",) * 9, ("-",) * 4 + ("+",) * 5, 0, PASS, "more than the 0 allowed, but not significant (p = 0.062)"),
        (("++", "++"), ("+", "?"), 0, INCOMPLETE, "1 unknown (s1)"),
        (("++", "++"), ("+", "?"), 1, PASS, ""),
        (("++", "?"), ("+", "-"), 0, INCOMPLETE, "1 unknown (s1)"),
        (("++", "?"), ("+", "+"), 0, PASS, ""),
        (("?", "?"), ("?", "?"), 0, INCOMPLETE, "add a threshold that applies to a single reply"),
        (("++",), (), 0, INCOMPLETE, "no sample is in both runs, 1 only in the baseline"),
    ],
)
def test_new_failures(before, after, limit, status, said):
    outcome = hold(passing(*before), passing(*after), newFailures=limit)[-1]
    assert (outcome.metric, outcome.title, outcome.status) == (None, "new failures", status)
    assert said in outcome.reason
    mark = "·" if "not significant" in said else MARKS[status]
    assert mark_regression(outcome) == mark


def test_an_unknown_attempt_beside_a_failed_one_is_no_evidence():
    outcome = hold(passing(*["++"] * 9), passing("-?", *["++"] * 8), newFailures=0)[-1]
    assert (outcome.status, "1 new failure (s0)" in outcome.reason) == (PASS, True)


def test_without_alpha_any_new_failure_counts():
    outcome = hold(passing(*["+++"] * 9), passing("-", *["+"] * 8), newFailures=0, alpha=None)[-1]
    said = "1 new failure (s0), more than the 0 allowed; alpha is null: every new failure counts"
    assert (outcome.status, outcome.reason) == (FAIL, said)


@pytest.mark.parametrize(
    ("chances", "asked", "again"),
    [
        *(((1.0, 0.9, 0.6, 0.0), *times) for times in ((3, 1), (3, 3), (1, 1), (5, 2))),
        *(((chance,), *times) for chance in (0.95, 0.99) for times in ((3, 1), (1, 1))),
        ((0.998,), 3, 3),
    ],
    ids=str,
)
def test_an_unchanged_flaky_agent_rarely_has_too_many_new_failures(chances, asked, again, monkeypatch):
    """It failed in up to 98 % of such comparisons when every new failure counted."""
    monkeypatch.setattr(changes, "estimate_difference", lambda scores, _: Estimate(len(scores)))  # slow, not used here
    draw, alarms, runs = random.Random(9), 0, 300

    def answer(chance, times):
        return "".join("+" if draw.random() < chance else "-" for _ in range(times))

    for _ in range(runs):
        agent = [draw.choice(chances) for _ in range(30)]
        before, after = ([answer(chance, times) for chance in agent] for times in (asked, again))
        alarms += hold(passing(*before), passing(*after), newFailures=0)[-1].status is FAIL
    assert alarms / runs < 0.05 + 0.025  # alpha, and two standard errors


def test_a_tightened_limit_is_no_change_of_the_agent():
    """The baseline passed at 0.3. By today's 0.6 its samples fail as they do now."""
    samples = [make_sample(f"s{n}", {"a": value}) for n, value in enumerate([0.5] * 6 + [0.9] * 6)]
    before = limited(samples, a=0.3)
    assert hold(before, limited(samples, a=0.6), newFailures=0)[-1].reason.startswith("0 new failures")
    worse = [make_sample(sample.id, {"a": 0.0}) for sample in samples]
    assert hold(before, limited(worse, a=0.6), newFailures=0)[-1].reason.startswith("6 new failures")


@pytest.mark.parametrize("missing", [None, Score.skipped("no judge (--no-judge)")])
def test_a_limit_that_the_baseline_cannot_be_held_to_makes_no_new_failures(missing):
    """The agent is as it was: a limit was added to a metric that the baseline did not compute, or skipped."""
    lacking = {} if missing is None else {"b": missing}
    before = limited([make_sample(f"s{n}", {"a": 1.0} | lacking) for n in range(12)], a=0.5)
    after = limited([make_sample(f"s{n}", {"a": 1.0, "b": 0.0}) for n in range(12)], a=0.5, b=0.5)
    outcome = hold(before, after, newFailures=0)[-1]
    assert outcome.status is PASS
    assert outcome.reason == "0 new failures, newFailures is 0; b left out: the baseline did not compute it"


def test_a_limit_that_this_run_skips_hides_no_new_failure():
    """Every sample failed by `b` in the baseline. It is skipped now, and all fall from 1 to 0 by `a`."""
    before = limited([make_sample(f"s{n}", {"a": 1.0, "b": 0.0}) for n in range(12)], a=0.5, b=0.5)
    worse = [make_sample(f"s{n}", {"a": 0.0, "b": Score.skipped("no judge")}) for n in range(12)]
    after = limited(worse, a=0.5)
    skipped = limited(worse, NOT_GATED, b=0.5).datasets[0].thresholds
    after = run_of(replace(after.datasets[0], thresholds=(*after.datasets[0].thresholds, *skipped)))
    assert hold(before, after, newFailures=0)[-1].status is FAIL


def test_a_single_negative_cosine_does_not_take_its_metric_out_of_the_gate():
    """A metric without bounds, like a similarity, is held by the baseline's scores: between -1 and 1."""

    def run(value):
        dataset = make_dataset([make_sample(f"s{n}", {"a": value if n else -0.07}) for n in range(30)])
        return run_of(replace(dataset, metrics={"a": replace(dataset.metrics["a"], bounds=None)}))

    assert [(o.metric, o.status) for o in hold(run(0.9), run(0.6))] == [("a", FAIL)]


def test_a_metric_that_falls_below_zero_does_not_leave_the_gate():
    def run(value):
        samples = [make_sample(f"s{n}", {"a": value, "b": value}) for n in range(20)]
        dataset = make_dataset(samples)
        reach = {"a": (-1.0, 1.0), "b": None}
        return run_of(replace(dataset, metrics={m: replace(s, bounds=reach[m]) for m, s in dataset.metrics.items()}))

    outcomes = hold(run(0.9), run(-0.9))
    assert [(o.metric, o.status) for o in outcomes] == [("a", FAIL), ("b", FAIL)]


def test_what_the_run_no_longer_has_is_incomplete():
    """A metric, a dataset or most samples that are gone cannot have held."""
    both = make_run({"a": [0.9] * 20, "b": [0.9] * 20})
    less = make_run({"a": [0.9] * 20})
    assert [(o.metric, o.status) for o in hold(both, less)] == [("a", PASS), ("b", INCOMPLETE)]
    assert hold(both, less)[1].reason == "the baseline has it, but this run does not compute it: promote a new baseline"
    assert [(o.metric, o.status) for o in hold(both, less, maxDrop={"a": 0.1, "b": 0.1})] == [
        ("a", PASS),
        ("b", INCOMPLETE),
    ]
    other = make_dataset([make_sample("s0", {"a": 1.0})], "gone")
    (_, missing) = hold(run_of(*less.datasets, other), less)
    assert (missing.dataset, missing.title, missing.status) == ("gone", "baseline", INCOMPLETE)
    assert hold(run_of(*less.datasets, other), less, fingerprint={"selection": {"datasets": ["qa"]}})[1:] == ()


def test_names_in_max_drop_are_checked():
    gate = CiGate.model_validate({"baseline": "main", "maxDrop": {"Recal@5": 0.1, "map": 0.1, "A": 0.1}})
    named = {"Recall@5": METRICS.find("recall"), "AP": METRICS.find("AP"), "a": METRICS.find("string_match")}
    computed = {name: found for name, found in named.items() if found}
    (problem,) = check_max_drop(gate, computed)
    assert problem == "maxDrop: no dataset computes 'Recal@5'. did you mean 'Recall@5'?"
    assert check_max_drop(CiGate.model_validate({"baseline": "main", "maxDrop": 0.1}), {}) == []
