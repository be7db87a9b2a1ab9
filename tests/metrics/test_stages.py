"""Metrics of a retriever's stages: either ranking is measured as the plain metric measures it."""

import json
import math
from pathlib import Path

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from evalspec.base.errors import InvalidInput, MetricError
from evalspec.cli.main import run
from evalspec.inputs.formats.autorag import FORMULAS as AUTORAG
from evalspec.inputs.formats.unrag.compat import FORMULAS as UNRAG
from evalspec.inputs.manifest.metric_schema import MetricEntry
from evalspec.inputs.manifest.metric_spec import parse_metric_spec
from evalspec.model import AgentReply, Direction, Exchange, Need, Sample, ScoreStatus, SearchTrace
from evalspec.runs.planning.metrics import STANDARD
from evalspec.scoring.metrics.base import METRICS, BuildContext, RelevanceRules
from evalspec.scoring.metrics.columns import find_definition
from evalspec.scoring.metrics.own import define_rubric, define_scorer

MEASURES = ("Precision", "Recall", "F1", "F2", "nDCG", "AP", "RR", "Rprec", "Success", "Judged")
OF_ANY_BETA = (*MEASURES, "F0.5", "F3")
TIMED = ("embed", "retrieve", "rerank")
PERCENTILES = ("p50", "p95", "p99")
LATENCIES = [f"{stage}.latency_{percentile}" for stage in TIMED for percentile in PERCENTILES]
UNLIMITED = (None, None)

documents = st.sampled_from([f"d{number}" for number in range(12)])
rankings = st.lists(documents, max_size=12).map(tuple)
cutoffs = st.none() | st.integers(1, 14)
ungraded = st.builds(RelevanceRules, st.integers(1, 3), st.none(), st.booleans())
rules_of = ungraded | st.sampled_from([RelevanceRules(compat="unrag"), RelevanceRules(compat="autorag")])
samples = st.builds(
    lambda grades: Sample("s", "q", qrels=grades), st.dictionaries(documents, st.integers(-1, 3), max_size=12)
) | st.lists(st.lists(documents, min_size=1, max_size=3).map(tuple), max_size=4).map(
    lambda groups: Sample("s", "q", qrels={d: 1 for group in groups for d in group}, groups=tuple(groups))
)


def score(name, exchange, cutoff=None, rules=STANDARD):
    definition = find_definition(name)
    return definition.build(BuildContext(cutoff, Path(), None, rules))(exchange)


def asked(sample, ranking, candidates=None) -> Exchange:
    return Exchange(sample, AgentReply("", retrieved_context_ids=ranking, candidate_ids=candidates))


def known_to(name, rules) -> bool:
    return name in {"unrag": UNRAG, "autorag": AUTORAG, None: OF_ANY_BETA}[rules.compat]


@given(st.sampled_from(OF_ANY_BETA), samples, rankings, rankings, cutoffs, rules_of)
def test_retrieved_is_the_metric_of_the_ranking_before_reranking(name, sample, ranking, candidates, cutoff, rules):
    exchange = asked(sample, ranking, candidates)
    if not known_to(name, rules):
        with pytest.raises(InvalidInput, match=f"has no {name}"):
            score(f"retrieved.{name}", exchange, cutoff, rules)
        return
    plain = score(name, asked(sample, candidates), cutoff, rules)
    assert score(f"retrieved.{name}", exchange, cutoff, rules) == plain


@given(st.sampled_from(OF_ANY_BETA), samples, rankings, rankings, cutoffs, rules_of)
def test_gain_is_the_difference_between_the_rankings(name, sample, ranking, candidates, cutoff, rules):
    assume(known_to(name, rules))
    after = score(name, asked(sample, ranking), cutoff, rules)
    before = score(name, asked(sample, candidates), cutoff, rules)
    gain = score(f"gain.{name}", asked(sample, ranking, candidates), cutoff, rules)
    if after.value is None or before.value is None:
        assert gain.status is ScoreStatus.NOT_APPLICABLE
        assert gain.reason in (before.reason, after.reason)
        return
    assert gain.value == after.value - before.value
    assert (gain.reason, gain.evidence) == (None, {"retrieved": before.value, "reranked": after.value})


def test_what_a_reranker_gains_by_hand():
    exchange = asked(Sample("s", "q", qrels={"a": 1}), ("a", "x"), ("x", "y", "a"))
    assert score("retrieved.RR", exchange).value == 1 / 3
    assert score("gain.RR", exchange).value == pytest.approx(2 / 3)
    assert score("gain.nDCG", exchange, 2).value == 1
    assert score("gain.RR", asked(exchange.sample, ("x", "a"), ("a", "x"))).value == -0.5
    assert score("retrieved.nDCG", exchange, 3).value == pytest.approx(1 / math.log2(4))


@pytest.mark.parametrize("stage", ["retrieved", "gain"])
@pytest.mark.parametrize("name", OF_ANY_BETA)
def test_without_reranking_there_is_no_second_ranking(stage, name):
    for reply in (None, AgentReply("", retrieved_context_ids=("a",))):
        with pytest.raises(MetricError, match=r"^nothing was reranked, so there is only one ranking$"):
            score(f"{stage}.{name}", Exchange(Sample("s", "q", qrels={"a": 1}), reply))


@pytest.mark.parametrize("stage", ["retrieved", "gain"])
@pytest.mark.parametrize("name", OF_ANY_BETA)
def test_a_stage_is_as_strict_as_its_metric(stage, name):
    known, plain = find_definition(f"{stage}.{name}"), find_definition(name)
    assert known.name == f"{stage}.{name}"
    assert known.needs == {Need.RELEVANT, Need.RETRIEVED_IDS, Need.CANDIDATE_IDS}
    assert plain.needs == {Need.RELEVANT, Need.RETRIEVED_IDS}
    assert known.aliases == tuple(f"{stage}.{alias}" for alias in plain.aliases)
    assert known.takes_cutoff and known.direction is Direction.HIGHER and not known.implicit
    assert (known.statistic, known.engine) == ("mean", "evalspec")


def test_bounds_of_a_gain_are_those_of_a_difference():
    autorag = RelevanceRules(compat="autorag")
    for name in OF_ANY_BETA:
        assert find_definition(f"retrieved.{name}").bounds == (0, 1)
        assert find_definition(f"gain.{name}").bounds == (-1, 1)
    assert find_definition("retrieved.nDCG").bounds_of(autorag) == (0, None)
    assert find_definition("gain.nDCG").bounds_of(autorag) == UNLIMITED
    assert find_definition("gain.nDCG").bounds_of(STANDARD) == (-1, 1)


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("retrieved.mrr", "retrieved.RR"),
        ("Gain.MAP", "gain.AP"),
        ("gain.hit_rate", "gain.Success"),
        ("RETRIEVED.f0.50", "retrieved.F0.5"),
        ("F0.50", "F0.5"),
    ],
)
def test_other_names_of_the_metric_have_the_prefix_too(written, meant):
    assert find_definition(written).name == meant
    cut = parse_metric_spec(f"{written}@5")
    assert (find_definition(cut.base).name, cut.cutoff) == (meant, 5)


@pytest.mark.parametrize(
    "name",
    ["retrieved.no_answer", "gain.latency_p95", "embed.RR", "gain.gain.RR", "retrieved.gain.F3", "gain.F0", "gain."],
)
def test_other_names_with_a_prefix_are_none(name):
    assert find_definition(name) is None


@pytest.mark.parametrize("name", LATENCIES)
def test_latency_of_a_stage_is_the_retrievers_own(name):
    stage, _, percentile = name.partition(".latency_")
    times = {"embed": 1.5, "retrieve": 0.0, "rerank": 40.25, "other": 7.0}

    def of(trace):
        return score(name, Exchange(Sample("s", "q"), AgentReply("", latency_ms=99.0, trace=trace)))

    assert of(SearchTrace(times)).value == times[stage]
    silent = of(SearchTrace({other: 1.0 for other in times if other != stage}))
    assert silent.status is ScoreStatus.NOT_APPLICABLE
    assert silent.reason == f"the retriever does not report how long {stage} took"
    assert (of(None).status, of(None).reason) == (ScoreStatus.NOT_APPLICABLE, "no retriever was queried")
    known = METRICS.find(name)
    assert (known.statistic, known.bounds, known.direction) == (percentile, (0, None), Direction.LOWER)
    assert known.implicit and not known.needs and not known.scores_failures


ANSWERS = {"string_match", "exact_match", "rouge", "bleu", "chrf", "answer_similarity", "faithfulness", "hallucination"}
ANSWERS |= {"answer_relevancy", "answer_correctness", "factual_correctness", "noise_sensitivity", "toxicity", "bias"}
ANSWERS |= {"claim_entailment", "truncated_rate"}
PASSAGES = {"non_llm_context_precision", "non_llm_context_recall", "context_precision", "context_recall", "no_answer"}
COSTS = {"latency_p50", "latency_p95", "latency_p99", "error_rate", "tokens_mean"}
STAGES = {f"{stage}.{name}" for stage in ("retrieved", "gain") for name in MEASURES} | set(LATENCIES)


def test_metrics_say_whether_they_look_at_the_answer():
    assert all(METRICS.find(name).scores_answers for name in ANSWERS)
    assert not any(METRICS.find(name).scores_answers for name in PASSAGES | COSTS | STAGES | {*MEASURES})
    assert not find_definition("F0.5").scores_answers
    assert not find_definition("gain.F0.5").scores_answers


@pytest.mark.parametrize(
    ("rubric", "answers"),
    [("Is it polite?", True), ("{response} to {input}", True), ("{contexts} for {input} and {expected}", False)],
)
def test_a_rubric_looks_at_the_answer_where_it_names_it_or_nothing(rubric, answers):
    entry = MetricEntry(name="own", rubric=rubric, labels={"yes": 1, "no": 0})
    assert define_rubric(entry).scores_answers is answers


def test_an_own_function_may_look_at_the_ranking_alone():
    assert not define_scorer(MetricEntry(name="own", scorer="module:function"), Path()).scores_answers


def test_the_list_names_the_stages_and_not_each_of_their_metrics(capsys):
    assert run(["metrics"]) == 0
    names = [line for line in capsys.readouterr().out.splitlines() if not line.startswith(" ")]
    assert [name.removesuffix("[@k]") for name in names[:-2]] == [one.name for one in METRICS if not one.is_staged]
    assert ANSWERS | PASSAGES | COSTS | {*MEASURES} <= {name.removesuffix("[@k]") for name in names}
    assert names[-2:] == ["retrieved.NAME, gain.NAME", "embed.NAME, retrieve.NAME, rerank.NAME"]
    told = {name.partition(".")[0] for line in names[-2:] for name in line.split(", ")}
    assert told == {name.partition(".")[0] for name in STAGES}


def test_the_list_for_programs_has_all_of_them(capsys):
    assert run(["metrics", "--json"]) == 0
    listed = {metric["name"]: metric for metric in json.loads(capsys.readouterr().out)["metrics"]}
    assert list(listed) == METRICS.names()
    assert listed["gain.RR"] == {
        "name": "gain.RR",
        "aliases": ["gain.mrr"],
        "cutoff": True,
        "summary": "The gain in RR from reranking: its value after minus that before.",
        "needs": ["relevant", "retrieved ids", "ids before reranking"],
        "direction": "higher",
        "range": [-1, 1],
        "engine": "evalspec",
        "statistic": "mean",
        "parameters": [],
    }


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("recal", "Recall"),
        ("latency50", "latency_p50"),
        ("retreived.Recall", "retrieved.Recall"),
        ("gain.nDGC", "gain.nDCG"),
        ("rerank.latency_95", "rerank.latency_p95"),
    ],
)
def test_a_name_that_is_nearly_right_is_put_right(written, meant):
    assert METRICS.hint(written) == f"did you mean '{meant}'?"


def test_a_name_like_no_other_gets_the_plain_names():
    hint = METRICS.hint("quality")
    assert hint.startswith("known: ") and "Recall" in hint
    assert not any(name in hint for name in STAGES)
