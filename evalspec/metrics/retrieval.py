"""The retrieval family as metrics: the ids in the agent's reply, in their order, against the sample's judgements."""

from collections.abc import Callable, Mapping
from typing import Any

from evalspec.errors import MetricError
from evalspec.metrics.base import BuildContext, MetricDefinition, Scorer, register
from evalspec.ranking.measures import MEASURES, JudgedRanking, judge_ranking
from evalspec.records import Exchange, Need, Score

_IDS_SHOWN = 20

_SUMMARIES: Mapping[str, tuple[str, tuple[str, ...]]] = {
    "Precision": ("Share of the top k that is relevant; without @k, of all that was retrieved.", ()),
    "Recall": ("Share of the relevant documents that is in the top k.", ()),
    "F1": ("Harmonic mean of Precision and Recall at the same k.", ()),
    "F2": ("Like F1, with recall twice as important as precision.", ()),
    "nDCG": ("Gain of the graded documents, discounted by log2 of the rank, relative to the best possible.", ()),
    "AP": ("Average precision: precision at each relevant document found, over all relevant ones.", ("map",)),
    "RR": ("Reciprocal rank of the first relevant document.", ("mrr",)),
    "Success": ("1 where at least one relevant document is in the top k.", ("hit", "hit_rate")),
    "Judged": ("Share of the retrieved top k that somebody judged: low means that the others are guesses.", ()),
}


def _build(measure: str) -> Callable[[BuildContext], Scorer]:
    def build(context: BuildContext) -> Scorer:
        return lambda exchange: _score(measure, context.cutoff, exchange)

    return build


def _score(measure: str, cutoff: int | None, exchange: Exchange) -> Score:
    """Not applicable where even a perfect ranking would get no value: no relevant document, or nothing to be judged."""
    qrels, ranking = exchange.sample.qrels, exchange.ranking
    if qrels is None:
        raise MetricError("the sample does not say which documents are relevant")
    if ranking is None:
        raise MetricError("the reply gives no document ids; map spec.api.chatEndpoint.response.contextIds")
    judged = judge_ranking(ranking, qrels, cutoff)
    if measure == "Judged":
        if not judged.retrieved:
            return Score.not_applicable("nothing was retrieved, so there is nothing to be judged")
    elif not judged.relevant:
        return Score.not_applicable("no document is judged relevant")
    return Score.scored(MEASURES[measure](judged), _reason(judged), _evidence(judged, qrels))


def _reason(judged: JudgedRanking) -> str | None:
    if not judged.retrieved:
        return "nothing was retrieved"
    if not judged.duplicates:
        return None
    return f"{judged.duplicates} repeated document ids were dropped; the first place of each counts"


def _evidence(judged: JudgedRanking, qrels: Mapping[str, int]) -> dict[str, Any]:
    """Where the relevant documents stand, and which are missing from the top k, the highest grades first."""
    found = {hit.document: hit.rank for hit in judged.relevant_hits}
    missing = [document for document, grade in qrels.items() if grade >= judged.min_grade and document not in found]
    missing.sort(key=lambda document: -qrels[document])
    return {
        "retrieved": judged.retrieved,
        "relevant": judged.relevant,
        "found": dict(list(found.items())[:_IDS_SHOWN]),
        "missing": missing[:_IDS_SHOWN],
        "duplicates": judged.duplicates,
    }


for _name, (_summary, _aliases) in _SUMMARIES.items():
    register(
        MetricDefinition(
            name=_name,
            summary=_summary,
            engine="evalspec",
            build=_build(_name),
            needs=frozenset({Need.RELEVANT, Need.RETRIEVED_IDS}),
            aliases=_aliases,
            takes_cutoff=True,
        )
    )
