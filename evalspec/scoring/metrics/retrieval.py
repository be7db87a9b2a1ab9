"""Retrieval metrics: compare the ranked ids of the reply with the sample's relevance judgements.

`retrieved.NAME` is NAME before reranking, `gain.NAME` is the gain from reranking. Both are derived from the plain
metric, so its rules, cutoff and formulas apply to both rankings.
"""

from collections.abc import Callable, Mapping
from typing import Any

from msgspec import Struct, structs
from msgspec.structs import replace

from evalspec.base.errors import InvalidInput, MetricError
from evalspec.base.plural import counted
from evalspec.inputs.datasets.base import CompatFormulas, find_system
from evalspec.model import Cause, Exchange, Need, Sample, Score
from evalspec.scoring.metrics.base import Bounds, BuildContext, MetricDefinition, RelevanceRules
from evalspec.scoring.metrics.functions import metric
from evalspec.scoring.ranking.measures import JudgedRanking, find_measure, judge_ranking, parse_beta

Compute = Callable[[Exchange], Score]
Build = Callable[[BuildContext], Compute]
_IDS_SHOWN = 20
_IDS_IN_REASON = 3
_NEEDS = frozenset({Need.RELEVANT, Need.RETRIEVED_IDS})
_SUMMARIES: Mapping[str, tuple[str, tuple[str, ...]]] = {
    "Precision": ("Share of the top k that is relevant; without @k, of all retrieved documents.", ()),
    "Recall": ("Share of the relevant documents that is in the top k.", ()),
    "F1": ("Harmonic mean of Precision and Recall at the same k.", ()),
    "F2": ("Like F1, with recall twice as important as precision; other weights like F0.5 work too.", ()),
    "nDCG": ("Gain of the graded documents, discounted by log2 of the rank, relative to the best possible.", ()),
    "AP": (
        "Average precision: the sum of precisions at each relevant hit, divided by all relevant documents.",
        ("map",),
    ),
    "RR": ("Reciprocal rank of the first relevant document.", ("mrr",)),
    "Rprec": ("Precision at R, where R is the number of relevant documents.", ("R-precision", "r_precision")),
    "Success": ("1 if at least one relevant document is in the top k.", ("hit", "hit_rate")),
    "Judged": ("Share of the top k with a relevance judgement; if low, the other metrics are unreliable.", ()),
}


def _measure_retrieved(compute: Compute) -> Compute:
    return lambda exchange: compute(_before_reranking(exchange))


def _measure_gain(compute: Compute) -> Compute:
    measure_retrieved = _measure_retrieved(compute)

    def score(exchange: Exchange) -> Score:
        retrieved, reranked = measure_retrieved(exchange), compute(exchange)
        if retrieved.value is None:
            return retrieved
        if reranked.value is None:
            return reranked
        evidence = {"retrieved": retrieved.value, "reranked": reranked.value}
        return Score.scored(reranked.value - retrieved.value, evidence=evidence)

    return score


def _before_reranking(exchange: Exchange) -> Exchange:
    if exchange.reply is None or exchange.candidates is None:
        raise MetricError("nothing was reranked, so there is only one ranking")
    return structs.replace(exchange, reply=structs.replace(exchange.reply, retrieved_context_ids=exchange.candidates))


def _bound_retrieved(bounds: Bounds) -> Bounds:
    return bounds


def _bound_gain(bounds: Bounds) -> Bounds:
    """Return the bounds of the difference between two values within `bounds`."""
    low, high = bounds
    return (None, None) if low is None or high is None else (low - high, high - low)


class _Stage(Struct, frozen=True):
    """How a stage metric is derived from the plain one: its summary, scorer and bounds."""

    summary: str
    measure: Callable[[Compute], Compute]
    bound: Callable[[Bounds], Bounds]


_STAGES: Mapping[str, _Stage] = {
    "retrieved.": _Stage("{name} before reranking.", _measure_retrieved, _bound_retrieved),
    "gain.": _Stage(
        "The gain in {name} from reranking: its value after minus that before.", _measure_gain, _bound_gain
    ),
}


def define_stages(plain: MetricDefinition, build: Build) -> dict[str, MetricDefinition]:
    """Return the stage metrics of a plain metric, by prefix. `build`: the plain metric's build function."""
    return {prefix: _define_stage(prefix, stage, plain, build) for prefix, stage in _STAGES.items()}


def split_stage(name: str) -> tuple[str, str]:
    """Split `gain.F0.5` into prefix and plain name, `gain.` and `F0.5`. The prefix may be empty."""
    prefix = next((prefix for prefix in _STAGES if name.casefold().startswith(prefix)), "")
    return prefix, name[len(prefix) :]


def _define_stage(prefix: str, stage: _Stage, plain: MetricDefinition, build: Build) -> MetricDefinition:
    return replace(
        plain,
        name=f"{prefix}{plain.name}",
        summary=stage.summary.format(name=plain.name),
        build=lambda context: stage.measure(build(context)),
        needs=plain.needs | {Need.CANDIDATE_IDS},
        bounds=stage.bound(plain.bounds),
        aliases=tuple(f"{prefix}{alias}" for alias in plain.aliases),
        bounds_of=_bound_by_rules(stage, plain.bounds_of),
        is_binary=plain.is_binary and stage.bound is _bound_retrieved,
    )


def _bound_by_rules(
    stage: _Stage, bounds_of: Callable[[RelevanceRules], Bounds] | None
) -> Callable[[RelevanceRules], Bounds] | None:
    return None if bounds_of is None else lambda rules: stage.bound(bounds_of(rules))


def _build(measure: str) -> Build:
    def build(context: BuildContext) -> Compute:
        cutoff, rules = context.cutoff, context.rules
        if rules.compat is not None:
            return _build_compat(measure, cutoff, rules.compat)
        return lambda exchange: _score(measure, cutoff, rules, exchange)

    return build


def _score(measure: str, cutoff: int | None, rules: RelevanceRules, exchange: Exchange) -> Score:
    """Return the score, not applicable if a perfect ranking has no value: nothing is relevant or was retrieved."""
    ranking, qrels = _given(exchange)
    judged = judge_ranking(ranking, qrels, cutoff, rules.min_grade, exchange.sample.groups)
    if measure == "Judged":
        if not judged.retrieved:
            cause = Cause.REPLY if judged.relevant else Cause.DATASET
            return Score.not_applicable("nothing was retrieved, so there is nothing to be judged", cause)
    elif not judged.relevant and not rules.zero_without_relevant:
        return Score.not_applicable("no document is judged relevant", Cause.DATASET)
    compute = find_measure(measure)
    if compute is None:
        raise MetricError(f"there is no measure {measure}")
    evidence = _evidence(judged, exchange.sample)
    return Score.scored(compute(judged), _reason(judged, evidence["missing"]), evidence)


def _given(exchange: Exchange) -> tuple[tuple[str, ...], Mapping[str, int]]:
    if exchange.sample.qrels is None:
        raise MetricError("the sample does not say which documents are relevant")
    if exchange.ranking is None:
        raise MetricError("the reply has no document ids; map spec.api.chatEndpoint.response.contextIds")
    return exchange.ranking, exchange.sample.qrels


def _reason(judged: JudgedRanking, missing: list[str]) -> str | None:
    if not judged.retrieved:
        return "nothing was retrieved"
    reasons = []
    if missing:
        more = f" and {len(missing) - _IDS_IN_REASON} more" if len(missing) > _IDS_IN_REASON else ""
        reasons.append(f"missing: {', '.join(missing[:_IDS_IN_REASON])}{more}")
    if judged.duplicates:
        reasons.append(f"{judged.duplicates} duplicate document ids were dropped; the first rank of each counts")
    return "; ".join(reasons) or None


def _evidence(judged: JudgedRanking, sample: Sample) -> dict[str, Any]:
    """Return the ranks of relevant documents, and those missing from the top k, highest grades first."""
    qrels = sample.qrels or {}
    found = {hit.document: hit.rank for hit in judged.relevant_hits}
    if sample.groups is None:
        missing = [document for document, grade in qrels.items() if grade >= judged.min_grade and document not in found]
        missing.sort(key=lambda document: -qrels[document])
    else:
        missing = [" or ".join(group) for group in sample.groups if not found.keys() & group]
    return {
        "retrieved": judged.retrieved,
        "relevant": judged.relevant,
        "found": dict(list(found.items())[:_IDS_SHOWN]),
        "missing": missing[:_IDS_SHOWN],
        "duplicates": judged.duplicates,
    }


def compat_formulas(name: str | None) -> CompatFormulas | None:
    """Return the formulas of a system; None if it has none."""
    system = find_system(name) if name else None
    return system.compat if system else None


def _build_compat(measure: str, cutoff: int | None, name: str) -> Compute:
    compat = compat_formulas(name) or CompatFormulas({})
    formula = compat.formulas.get(measure)
    if formula is None:
        raise InvalidInput(f"compat: {name} has no {measure}", f"it has {', '.join(compat.formulas)}")

    def score(exchange: Exchange) -> Score:
        ranking, _ = _given(exchange)
        value = formula(ranking, exchange.sample, cutoff)
        return Score.not_applicable(compat.undefined, Cause.OTHER) if value is None else Score.scored(value)

    return score


def _bounds_of(measure: str) -> Callable[[RelevanceRules], Bounds]:
    def bounds_of(rules: RelevanceRules) -> Bounds:
        compat = compat_formulas(rules.compat)
        return (0.0, None) if compat is not None and measure in compat.unbounded else (0.0, 1.0)

    return bounds_of


def _define(name: str, summary: str, aliases: tuple[str, ...] = ()) -> dict[str, MetricDefinition]:
    """Return the metric, under an empty prefix, and its stage metrics under their prefixes."""
    build = _build(name)
    plain = MetricDefinition(
        name=name,
        summary=summary,
        engine="evalspec",
        build=build,
        needs=_NEEDS,
        aliases=aliases,
        takes_cutoff=True,
        bounds_of=_bounds_of(name),
        scores_answers=False,
        is_binary=name == "Success",
    )
    return {"": plain, **define_stages(plain, build)}


def define_f_beta(name: str) -> MetricDefinition | None:
    """Return the metric for a name like `F0.5` or `gain.F0.5`; None for other names and registered metrics."""
    prefix, plain = split_stage(name)
    beta = parse_beta(plain)
    if beta is None or beta in (1.0, 2.0):
        return None
    return _define(f"F{beta:g}", f"Like F1, with recall {beta:g} times as important as precision.")[prefix]


MEASURES = tuple(
    one for name, (summary, aliases) in _SUMMARIES.items() for one in _define(name, summary, aliases).values()
)


@metric(needs=_NEEDS, scores_answers=False, is_binary=True)
def no_answer(exchange: Exchange, context: BuildContext) -> Score:
    """Share of the queries without relevant documents for which nothing was returned."""
    ranking, qrels = _given(exchange)
    if any(grade >= context.rules.min_grade for grade in qrels.values()):
        return Score.not_applicable("the query has relevant documents", Cause.DATASET)
    if not ranking:
        return Score.scored(1.0)
    return Score.scored(0.0, f"{counted(len(ranking), 'document was', 'documents were')} returned")
