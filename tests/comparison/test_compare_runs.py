import random

import numpy as np
import pytest
import scipy.stats
from hypothesis import given
from hypothesis import strategies as st

from comparison.small_runs import make_dataset, make_run, make_sample, run_of
from evalspec.base.errors import InvalidInput
from evalspec.model import Cause, Direction, Score
from evalspec.model.comparisons import Change, MetricChange, SampleKind, ScoreChange
from evalspec.verdict.comparison.compare_runs import Choice, compare_runs
from evalspec.verdict.comparison.named_runs import NamedRun
from evalspec.verdict.comparison.wording import render_statement
from evalspec.verdict.validity.changes import SignificanceRules
from simulated import simulate_best

RULES = SignificanceRules(resamples=2000)
JUDGE = {"judge": {"model": "m"}, "judgeSha256": "1"}
SCORED, SCORED_OTHERWISE = ({"dataset": {"metricIdentities": {"a": {"scorer": f"m:f #{n}"}}}} for n in "12")


def compare(before, after, rules=RULES, **choice):
    named = [NamedRun("base", before), *(NamedRun(f"c{n}", run) for n, run in enumerate(after))]
    return compare_runs(named[0], named[1:], rules, Choice(**choice))


def compare_one(before, after, **choice):
    (dataset,) = compare(before, [after], **choice).candidates[0].datasets
    return dataset


def change_of(before, after, metric="string_match"):
    dataset = compare_one(make_run({metric: before}), make_run({metric: after}))
    return dataset.metrics[metric]


def test_binary_scores_are_tested_as_scipy_does():
    before, after = [1.0] * 30 + [0.0] * 10, [1.0] * 20 + [0.0] * 18 + [1.0] * 2
    found = change_of(before, after)
    assert found.test == "McNemar"
    assert found.p_value == pytest.approx(scipy.stats.binomtest(2, 12).pvalue)
    assert (found.baseline, found.candidate) == (0.75, 0.55)
    assert found.delta == pytest.approx(-0.2)
    assert found.relative == pytest.approx(-0.2 / 0.75)
    assert found.verdict is Change.DEGRADED


def test_other_scores_are_tested_as_scipy_does():
    draw = random.Random(1)
    before = [draw.random() for _ in range(12)]
    after = [min(1.0, max(0.0, value + draw.gauss(0.15, 0.2))) for value in before]
    found = change_of(before, after, "faithfulness")
    differences = [new - old for old, new in zip(before, after, strict=True)]
    oracle = scipy.stats.permutation_test(
        (differences,), lambda x, axis: x.mean(axis=axis), permutation_type="samples", n_resamples=5000, vectorized=True
    )
    assert (found.test, found.p_value) == ("randomisation", pytest.approx(oracle.pvalue))
    assert found.p_adjusted == found.p_value


def test_p_values_are_adjusted_over_metrics_and_candidates():
    draw = random.Random(2)
    columns = {metric: [draw.random() for _ in range(20)] for metric in ("a", "b", "c")}
    others = [{m: [v + draw.gauss(0.1, 0.2) for v in vs] for m, vs in columns.items()} for _ in range(2)]
    found = compare(make_run(columns), [make_run(other) for other in others])
    changes = [change for one in found.candidates for change in one.changes]
    assert found.tests == 9
    assert all(change.p_value <= change.p_adjusted <= min(1, 9 * change.p_value + 0.03) for change in changes)
    assert any(change.p_adjusted > 3 * change.p_value for change in changes)


def shift(values, by):
    return [value + by for value in values]


NOISE = [0.1 * random.Random(8).random() for _ in range(40)]
LOW, MIDDLE, HIGH = (shift(NOISE, by) for by in (0.2, 0.3, 0.6))
ALIKE = [value + 0.01 * (-1) ** place for place, value in enumerate(HIGH)]


def find_best(*columns, metric="faithfulness", **choice):
    return compare(make_run({metric: columns[0]}), [make_run({metric: one}) for one in columns[1:]], **choice).best_runs


def test_candidates_are_compared_with_each_other_as_with_a_baseline():
    found = compare(make_run({"a": LOW}), [make_run({"a": one}) for one in (ALIKE, MIDDLE, HIGH)])
    alone = compare_one(make_run({"a": ALIKE}), make_run({"a": MIDDLE})).metrics["a"]
    assert [(pair.first, pair.second) for pair in found.rivals] == [("c0", "c1"), ("c0", "c2"), ("c1", "c2")]
    between = found.rivals[0].change
    assert (between.delta, between.verdict) == (pytest.approx(alone.delta), Change.DEGRADED)
    assert (between.p_value, between.test) == (alone.p_value, alone.test)
    assert between.p_adjusted >= alone.p_value
    assert (found.tests, alone.detectable is None, between.detectable) == (6, False, None)


def test_the_ranges_of_a_metric_hold_together():
    """Bonferroni over the pairs of runs: 3 of two candidates, so 1 - 0.05 / 3 each. One candidate keeps 95 %."""
    before, after, other = (make_run({"a": column}) for column in (LOW, ALIKE, HIGH))
    several, one = compare(before, [after, other]), compare(before, [after])
    single = compare(before, [after], SignificanceRules(0.05 / 3, resamples=2000)).candidates[0].changes[0].interval
    assert several.candidates[0].changes[0].interval == single
    assert several.confidence == several.rivals[0].change.confidence == pytest.approx(1 - 0.05 / 3)
    assert (one.confidence, one.rivals) == (0.95, ())
    assert one.candidates[0].changes[0].interval[0] > single[0]


def test_a_run_is_the_best_if_no_other_may_be():
    (best,) = find_best(LOW, HIGH, MIDDLE)
    assert (best.possible, list(best.means), best.samples) == (("c0",), ["c0", "c1", "base"], 40)
    assert best.means["c0"] == pytest.approx(sum(HIGH) / 40)
    (best,) = find_best(LOW, HIGH, ALIKE)
    assert set(best.possible) == {"c0", "c1"}
    (best,) = find_best(LOW, HIGH, MIDDLE, metric="hallucination")
    assert (best.possible, list(best.means)) == (("base",), ["base", "c1", "c0"])
    assert find_best([10.0] * 40, [11.0] * 40, [12.0] * 40, metric="latency_p95") == ()


def test_what_is_worse_than_the_second_is_not_the_best_either():
    """The first and the third lack too many pairs for a statement, but each has enough with the second."""
    lost = Score.failed("judge down")
    first, third = [*HIGH[:37], *[lost] * 3], [*[lost] * 3, *LOW[3:]]
    found = compare(make_run({"a": MIDDLE}), [make_run({"a": column}) for column in (first, third)])
    assert found.rivals[0].change.verdict is Change.UNDECIDED
    (best,) = found.best_runs
    assert (best.possible, best.samples) == (("c0",), 34)


def test_samples_that_one_run_lacks_do_not_make_a_run_the_best():
    """Without the hardest sample the mean is higher, but all are equal where all are scored."""
    hard = [0.0, *HIGH[1:]]
    (best,) = find_best(hard, [Score.failed("judge down"), *HIGH[1:]], hard)
    assert len(set(best.means.values())) == 1
    assert len(best.possible) == 3


def test_many_candidates_are_compared_with_the_baseline_only():
    found = compare(make_run({"a": LOW}), [make_run({"a": HIGH})] * 11)
    assert (found.tests, found.rivals, found.confidence) == (11, (), pytest.approx(1 - 0.05 / 11))
    assert found.baseline.notes == ("more than 10 candidates are compared with the baseline only",)
    assert found.best_runs[0].possible == tuple(f"c{number}" for number in range(11))


def test_candidates_share_metrics_that_the_baseline_lacks():
    runs = [make_run({"a": LOW, "b": column}) for column in (LOW, HIGH)]
    found = compare(make_run({"a": LOW}), runs)
    assert [(pair.change.metric, pair.change.verdict) for pair in found.rivals] == [
        ("a", Change.UNDECIDED),
        ("b", Change.IMPROVED),
    ]
    assert {best.metric: best.possible for best in found.best_runs} == {"a": ("base", "c0", "c1"), "b": ("c1",)}
    assert [pair.change.metric for pair in compare(make_run({"a": LOW}), runs, metrics=["a"]).rivals] == ["a"]


def test_candidates_that_are_not_comparable_with_each_other_are_refused():
    """The baseline is of another tool, which does not record its samples. With its record, each differs from it."""
    told = [run_of(make_dataset([make_sample("s", {"a": 1.0}, digest=digest)]), fingerprint=JUDGE) for digest in "012"]
    known = compare(told.pop(), told, allow_mismatch=True)
    assert [len(one.mismatches) for one in known.candidates] == [1, 1]
    with pytest.raises(
        InvalidInput, match=r"c1: with c0 as the baseline: dataset qa: 1 sample changed \(s\) of 1, none is the same"
    ):
        compare(make_run({"a": [1.0]}), told)
    found = compare(make_run({"a": [1.0]}), told, allow_mismatch=True)
    assert [len(one.mismatches) for one in found.candidates] == [0, 1]


@pytest.mark.simulation
@pytest.mark.parametrize(("kind", "runs", "worse"), [("binary", 5, 0.0), ("graded", 3, 0.7)])
def test_one_of_equal_runs_is_seldom_called_the_best(kind, runs, worse):
    """One of the equal best runs is excluded in at most alpha + 2.5 points of 300 comparisons; 1.3 points of error."""
    named, excluded = simulate_best(np.random.default_rng(1), kind, runs, 30, worse, 300)
    assert named <= excluded <= RULES.alpha + 0.025


def test_metrics_that_say_the_same_are_charged_as_one_test():
    """Holm would double the p-value of each; sign flips that all metrics share find that they are one."""
    draw = random.Random(6)
    before = [draw.random() / 2 for _ in range(30)]
    after = [value + draw.gauss(0.03, 0.08) for value in before]
    single = compare_one(make_run({"a": before}), make_run({"a": after})).metrics["a"]
    twins = compare_one(make_run({"a": before, "b": before}), make_run({"a": after, "b": after})).metrics
    assert [twin.p_adjusted for twin in twins.values()] == [pytest.approx(single.p_value, abs=0.01)] * 2


@given(st.lists(st.tuples(st.floats(0, 1), st.floats(0, 1)), min_size=1, max_size=30))
def test_the_other_way_round_is_the_same_with_the_other_sign(pairs):
    before, after = (make_run({"faithfulness": list(side)}) for side in zip(*pairs, strict=True))
    there, back = compare_one(before, after), compare_one(after, before)
    one, other = there.metrics["faithfulness"], back.metrics["faithfulness"]
    opposite = {Change.IMPROVED: Change.DEGRADED, Change.DEGRADED: Change.IMPROVED}
    assert other.delta == pytest.approx(-one.delta)
    assert other.p_value == pytest.approx(one.p_value, abs=0.05)
    if min(abs(found.p_adjusted - RULES.alpha) for found in (one, other)) > 0.02:
        assert other.verdict is opposite.get(one.verdict, one.verdict)
    kinds = {SampleKind.IMPROVED: SampleKind.DEGRADED, SampleKind.DEGRADED: SampleKind.IMPROVED}
    assert back.sample_counts == {kinds.get(kind, kind): count for kind, count in there.sample_counts.items()}


def test_less_is_better_for_some():
    dataset = compare_one(make_run({"hallucination": [0.5] * 10}), make_run({"hallucination": [0.1] * 10}))
    (found,) = dataset.metrics.values()
    assert (found.direction, found.verdict, found.delta) == (Direction.LOWER, Change.IMPROVED, pytest.approx(-0.4))
    assert dataset.sample_counts[SampleKind.IMPROVED] == 10


@pytest.mark.parametrize(("pairs", "change"), [(1, Change.TOO_FEW), (5, Change.TOO_FEW), (6, Change.DEGRADED)])
def test_so_few_pairs_that_nothing_could_be_shown(pairs, change):
    found = change_of([1.0] * pairs, [0.0] * pairs)
    assert found.verdict is change
    assert (found.reason is not None) == (change is Change.TOO_FEW)


def test_an_undecided_change_says_its_range_and_how_many_samples_would_settle_it():
    draw = random.Random(3)
    before = [0.2 + draw.random() / 2 for _ in range(40)]
    found = change_of(before, [value + draw.gauss(0, 0.05) for value in before], "faithfulness")
    assert found.verdict is Change.UNDECIDED
    assert 0.01 < found.detectable < 0.04
    change, samples = found.required_size.change, found.required_size.samples
    assert (change, 40 < samples < 160) == (0.02, True)
    said = render_statement(found)
    assert said.startswith("the change is between −0.0")
    assert said.endswith(f"about {samples} samples would be needed to detect a change of 0.02")


@pytest.mark.parametrize(("alpha", "level"), [(0.05, "95 %"), (0.1, "90 %")])
def test_an_interval_that_excludes_0_where_the_test_does_not_confirm_it_is_explained(alpha, level):
    change = MetricChange(
        *(0.9, 0.8, -0.1, (-0.2, -0.01), 20), metric="a", statistic="mean", direction=Direction.HIGHER,
        verdict=Change.UNDECIDED, p_adjusted=0.125, confidence=1 - alpha,
    )  # fmt: skip
    said = f"the {level} interval excludes 0, but the test does not confirm it (p = 0.125)"
    assert render_statement(change) == said


def test_a_change_keeps_the_confidence_of_its_interval():
    runs = [NamedRun(name, make_run({"a": [0.5] * 9})) for name in "xy"]
    (found,) = compare_runs(runs[0], runs[1:], SignificanceRules(0.2)).candidates[0].changes
    assert found.confidence == pytest.approx(0.8)


def test_latencies_of_two_runs_are_shown_and_not_tested():
    draw = random.Random(4)
    before = [draw.lognormvariate(6, 0.3) for _ in range(100)]
    found = change_of(before, [value * 1.5 for value in before], "latency_p95")
    assert (found.verdict, found.p_value, found.interval) == (Change.NOT_TESTED, None, None)
    assert found.delta > 0
    assert render_statement(found) == "depends on machine and load: shown, not tested"


def test_samples_that_one_run_alone_has_scored_are_counted_and_too_many_say_nothing():
    """The 15 worst of 40 failed to be scored: what is left looks better."""
    before = [0.1] * 15 + [0.6] * 25
    after = [Score.failed("judge down")] * 15 + [0.9] * 25
    found = change_of(before, after, "faithfulness")
    assert (found.verdict, found.unpaired) == (Change.UNDECIDED, 15)
    assert render_statement(found) == "15 of 40 samples are scored in one run only"
    few = change_of(before, [Score.not_applicable("the response is empty", Cause.REPLY), *[0.9] * 39], "faithfulness")
    assert (few.verdict, few.unpaired) == (Change.IMPROVED, 1)
    assert render_statement(few) == "1 sample scored in one run only"


def test_what_became_of_each_sample():
    failed, skipped = Score.failed("judge down"), Score.skipped("no judge")
    before = make_dataset(
        [
            make_sample("worse", {"a": 1.0, "b": 0.5, "latency_p95": 5.0}),
            make_sample("mixed", {"a": 0.0, "b": 0.5, "latency_p95": 5.0}),
            make_sample("better", {"a": 0.2, "b": 0.5, "latency_p95": 5.0}),
            make_sample("same", {"a": 0.2, "b": 0.5, "latency_p95": 5.0}),
            make_sample("lost", {"a": 0.2, "b": 0.5, "latency_p95": 5.0}),
            make_sample("never", {"a": skipped, "b": 0.5, "latency_p95": 5.0}),
            make_sample("gone", {"a": 0.2, "b": 0.5, "latency_p95": 5.0}),
        ]
    )
    after = make_dataset(
        [
            make_sample("new", {"a": 1.0, "b": 0.5, "latency_p95": 9.0}),
            make_sample("never", {"a": failed, "b": 0.5, "latency_p95": 9.0}),
            make_sample("lost", {"a": failed, "b": 0.5, "latency_p95": 9.0}),
            make_sample("same", {"a": 0.2 + 1e-12, "b": 0.5, "latency_p95": 9.0}),
            make_sample("better", {"a": 0.4, "b": 0.5, "latency_p95": 9.0}),
            make_sample("mixed", {"a": 1.0, "b": 0.0, "latency_p95": 9.0}),
            make_sample("worse", {"a": 0.0, "b": 0.5, "latency_p95": 9.0}),
        ]
    )
    found = compare_one(run_of(before), run_of(after))
    assert [(change.id, change.kind) for change in found.samples] == [
        ("lost", SampleKind.UNSCORED),
        ("worse", SampleKind.DEGRADED),
        ("mixed", SampleKind.MIXED),
        ("better", SampleKind.IMPROVED),
        ("gone", SampleKind.ONLY_BASELINE),
        ("new", SampleKind.ONLY_CANDIDATE),
    ]
    assert found.sample_counts[SampleKind.UNCHANGED] == 2
    assert sum(found.sample_counts.values()) == 8
    assert found.samples[0].scores == {"a": ScoreChange(0.2, "failed")}
    assert found.metrics["a"].pairs == 4


def test_slices_worst_first_small_ones_last():
    def run(of_tag):
        return run_of(
            make_dataset(
                [
                    make_sample(f"{tag}{n}", {"a": value}, tags=(tag,))
                    for tag, value in of_tag.items()
                    for n in range(2 if tag == "few" else 10)
                ],
                slices=["tags"],
            )
        )

    found = compare_one(
        run({"up": 0.1, "down": 0.9, "few": 0.9, "still": 0.5}), run({"up": 0.2, "down": 0.1, "few": 0.0, "still": 0.5})
    )
    assert [(part.name, part.pairs, part.small) for part in found.slices] == [
        ("down", 10, False),
        ("still", 10, False),
        ("up", 10, False),
        ("few", 2, True),
    ]
    assert found.slices[0].metrics["a"].delta == pytest.approx(-0.8)


def fingerprint(dataset=None, **changes):
    described = {"name": "qa", "sha256": "x", "selectionSha256": "y"} | (dataset or {})
    return {"datasets": [described], "repeats": {"agent": 1, "judge": 1}, "embeddingsSha256": "e"} | changes


@pytest.mark.parametrize(
    ("metric", "before", "after", "said"),
    [
        ("a", {}, {"dataset": {"sha256": "z"}}, "its content changed"),
        ("a", {}, {"dataset": {"selectionSha256": "z"}}, None),
        ("a", {}, {"repeats": {"agent": 3, "judge": 1}}, "the candidate has only the means of its attempts"),
        ("a", {"repeats": {"agent": 3, "judge": 1}}, {}, "the baseline has only the means of its attempts"),
        ("a", {}, {"repeats": {"agent": 1, "judge": 3}}, None),
        ("a", SCORED, SCORED | {"judge": {"model": "n"}, "judgeSha256": "2"}, None),
        ("a", SCORED, SCORED_OTHERWISE, "its scorer m:f changed"),
        ("a", SCORED, {}, None),
        ("faithfulness", JUDGE, {"judge": {"model": "n"}, "judgeSha256": "2"}, "judge: model, address"),
        ("string_match", JUDGE, {"judge": {"model": "n"}, "judgeSha256": "2"}, None),
        ("hallucination", JUDGE, {"judge": {"model": "n"}, "judgeSha256": "2"}, "judge: model, address"),
        ("faithfulness", JUDGE, {"judge": None, "judgeSha256": "2"}, None),
        ("answer_similarity", {}, {"embeddingsSha256": "f"}, "embeddings: provider"),
        ("string_match", {}, {"embeddingsSha256": "f"}, None),
    ],
)
def test_what_is_not_comparable_is_refused_unless_allowed(metric, before, after, said):
    dataset = make_dataset([make_sample(f"s{n}", {metric: 1.0}) for n in range(9)])
    runs = [run_of(dataset, fingerprint=fingerprint(**changes)) for changes in (before, after)]
    if said is None:
        assert not compare(runs[0], [runs[1]]).candidates[0].mismatches
        return
    with pytest.raises(InvalidInput, match=said):
        compare(runs[0], [runs[1]])
    (mismatch,) = compare(runs[0], [runs[1]], allow_mismatch=True).candidates[0].mismatches
    assert said in mismatch


def test_another_cutoff_is_not_the_same_metric():
    columns = {"a": [1.0] * 6, "Recall@5": [1.0] * 6}, {"a": [1.0] * 6, "Recall@10": [1.0] * 6}
    with pytest.raises(InvalidInput, match="Recall has different cutoffs: 5 in the baseline, 10 in the candidate"):
        compare(make_run(columns[0]), [make_run(columns[1])])
    found = compare_one(make_run(columns[0]), make_run(columns[1]), allow_mismatch=True)
    assert [*found.metrics] == ["a"]
    assert (found.metrics_only_in_baseline, found.metrics_only_in_candidate) == (("Recall@5",), ("Recall@10",))


@pytest.mark.parametrize("columns", [("style=strict", "style=lax"), ("style=strict", ""), ("", "style=strict, top=3")])
def test_other_values_of_a_parameter_make_another_metric(columns):
    before, after = (f"m({values})" if values else "m" for values in columns)
    runs = [make_run({"a": [1.0] * 6, column: [1.0] * 6}) for column in (before, after)]
    with pytest.raises(InvalidInput) as caught:
        compare(runs[0], [runs[1]])
    assert f"m has different parameters: {before} in the baseline, {after} in the candidate" in str(caught.value)
    found = compare_one(*runs, allow_mismatch=True)
    assert ([*found.metrics], found.metrics_only_in_baseline) == (["a"], (before,))


def test_a_bare_name_of_two_columns_cannot_be_compared():
    run = make_run({"string_match": [1.0] * 6, "string_match(match=substring)": [1.0] * 6})
    with pytest.raises(InvalidInput, match="may be string_match and string_match") as caught:
        compare(run, [run], metrics=("string_match",))
    assert "write string_match() or string_match(match=substring)" in caught.value.problems[0].fix
    for name, column in (("string_match()", "string_match"), ("pass_rate", "string_match(match=substring)")):
        assert [*compare_one(run, run, metrics=(name,)).metrics] == [column]


def test_nothing_in_common():
    one, other = make_run({"a": [1.0]}), make_run({"b": [1.0]})
    with pytest.raises(InvalidInput, match="no metric in common"):
        compare(one, [other])
    with pytest.raises(InvalidInput, match="no dataset in common"):
        compare(run_of(*one.datasets, make_dataset([], "x")), [run_of(make_dataset([], "y"), make_dataset([], "z"))])


def test_disjoint_samples_and_samples_that_all_failed():
    disjoint = compare_one(
        run_of(make_dataset([make_sample("p", {"a": 1.0})])), run_of(make_dataset([make_sample("q", {"a": 1.0})]))
    )
    failed = compare_one(make_run({"a": [1.0] * 9}), make_run({"a": [Score.failed("down")] * 9}))
    for found in (disjoint, failed):
        (change,) = found.metrics.values()
        assert (change.verdict, change.pairs, change.delta) == (Change.TOO_FEW, 0, None)
        assert change.reason == "no sample is scored in both"
    assert failed.sample_counts[SampleKind.UNSCORED] == 9


def test_samples_that_belong_together_count_as_one():
    draw = random.Random(5)
    before, after = [], []
    for cluster in range(12):
        shift = draw.gauss(0.1, 0.2)
        for n in range(20):
            base = draw.random()
            meta = {"doc": cluster}
            before.append(make_sample(f"{cluster}-{n}", {"a": base}, metadata=meta))
            after.append(make_sample(f"{cluster}-{n}", {"a": base + shift}, metadata=meta))
    old = run_of(make_dataset(before))
    plain, clustered = (
        compare(old, [run_of(make_dataset(after, cluster=key))]).candidates[0].changes[0] for key in (None, "doc")
    )
    assert (plain.units, clustered.units) == (240, 12)
    assert clustered.p_value > 10 * plain.p_value
    assert clustered.detectable > 3 * plain.detectable


def test_alpha_that_no_resampling_reaches():
    with pytest.raises(InvalidInput, match="raise --resamples above"):
        compare(make_run({"a": [1.0]}), [make_run({"a": [1.0]})], SignificanceRules(alpha=1e-5))
