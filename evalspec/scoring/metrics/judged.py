"""Metrics that ragas computes from the verdicts of a judge: one row of the table each.

This module defines the cases that ragas leaves open: an empty response, nothing retrieved, a text without statements.
ragas gives answer_correctness 1.0 to a response in which the judge finds no statement; here it is 0.0, as for an empty
one.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from msgspec import Struct, structs
from msgspec.structs import replace

from evalspec.base.errors import MetricError
from evalspec.model import Cause, Direction, Exchange, Need, Score
from evalspec.scoring.metrics.abstention import is_abstention
from evalspec.scoring.metrics.base import Bounds, BuildContext, ControlKind, MetricDefinition, Scorer
from evalspec.scoring.metrics.evidence import (
    Explain,
    explain_correctness,
    explain_fact_check,
    explain_no_support,
    explain_precision,
    explain_questions,
    explain_recall,
    explain_support,
    explain_wrong_statements,
)
from evalspec.scoring.metrics.functions import read_needed
from evalspec.scoring.metrics.parameters import Parameter, Value
from evalspec.scoring.metrics.questions import QUESTIONS

Verdictless = Callable[[str, Cause], Score]
"""Returns the score, given reason and cause, of an exchange with nothing to judge."""
_not_applicable: Verdictless = Score.not_applicable

_SUPPORT_ENGINE = "ragas, rule 2"
"""Increase the number if `needs_support` changes: scores by another rule are not comparable."""

_DECIMALS = 9
"""ragas adds 1e-10 to a denominator, so a perfect context_precision would be 0.9999999999 and fail a minimum of 1."""


def _zero(reason: str, _cause: Cause) -> Score:
    return Score.scored(0.0, reason)


def _measure_f1(score: Score) -> float:
    """Return the F1 of the statements that the judge sorted, without the similarity that embeddings measure."""
    sorted_out = score.evidence_or_none
    if sorted_out is None:
        return 0.0  # the judge found no statement
    right, wrong, missing = (len(sorted_out[kind]) for kind in ("TP", "FP", "FN"))
    return 2 * right / (2 * right + wrong + missing) if right else 0.0


class _Judged(Struct, frozen=True):
    """A metric of `ragas.metrics.collections`.

    `fields`: the arguments of its ascore. `embedded`: those that it embeds. `calls`: judge calls per sample, given the
    number of contexts. `draws`: how many of them draw answers to one question. `explain`: returns reason and evidence.
    `silent`: the score of a response that is empty or has no statements according to the judge. `nothing_retrieved`:
    the score without contexts; None: not checked. `needs_support`: whether the statements of a response count as
    unsupported if the reply has no contexts.
    """

    name: str
    summary: str
    ragas_class: str
    fields: tuple[str, ...]
    calls: Callable[[int], int]
    explain: Explain
    control: ControlKind | None = None
    judged_part: Callable[[Score], float] | None = None
    silent: Verdictless | None = None
    nothing_retrieved: Verdictless | None = None
    needs_support: bool = False
    embedded: tuple[str, ...] = ()
    direction: Direction = Direction.HIGHER
    bounds: tuple[float, float] = (0.0, 1.0)
    usual_limits: Bounds = (None, None)
    version: int = 1
    draws: int = 1


_TABLE = (
    _Judged(
        name="faithfulness",
        summary="Share of the response's statements that the retrieved contexts support.",
        ragas_class="Faithfulness",
        fields=("user_input", "response", "retrieved_contexts"),
        calls=lambda _contexts: 2,
        explain=explain_support,
        control=ControlKind.SUPPORT,
        version=2,
        silent=_not_applicable,
        nothing_retrieved=_not_applicable,
        needs_support=True,
    ),
    _Judged(
        name="answer_relevancy",
        summary="Similarity of the question to those that the response would answer (mean cosine of three).",
        ragas_class="AnswerRelevancy",
        fields=("user_input", "response"),
        calls=lambda _contexts: 3,
        explain=explain_questions,
        control=ControlKind.ANSWER,
        silent=_zero,
        embedded=("user_input",),
        bounds=(-1.0, 1.0),
        draws=3,
    ),
    _Judged(
        name="context_precision",
        summary="Whether contexts that support the expected answer are ranked first (average precision).",
        ragas_class="ContextPrecision",
        fields=("user_input", "reference", "retrieved_contexts"),
        calls=lambda contexts: contexts,
        explain=explain_precision,
        control=ControlKind.PASSAGES,
        nothing_retrieved=_zero,
    ),
    _Judged(
        name="context_recall",
        summary="Share of the reference's statements that the retrieved contexts support.",
        ragas_class="ContextRecall",
        fields=("user_input", "retrieved_contexts", "reference"),
        calls=lambda _contexts: 1,
        explain=explain_recall,
        control=ControlKind.PASSAGES,
        nothing_retrieved=_zero,
    ),
    _Judged(
        name="answer_correctness",
        summary="F1 of the response's statements against the expected answer's (3/4), and their similarity (1/4).",
        ragas_class="AnswerCorrectness",
        fields=("user_input", "response", "reference"),
        calls=lambda _contexts: 3,
        explain=explain_correctness,
        control=ControlKind.ANSWER,
        judged_part=_measure_f1,
        version=2,
        silent=_zero,
        embedded=("response", "reference"),
        bounds=(-0.25, 1.0),
    ),
    _Judged(
        name="factual_correctness",
        summary="F1 of the claims of response and expected answer, each checked against the other.",
        ragas_class="FactualCorrectness",
        fields=("response", "reference"),
        calls=lambda _contexts: 4,
        explain=explain_fact_check,
        control=ControlKind.ANSWER,
        version=2,
        silent=_zero,
    ),
    _Judged(
        name="noise_sensitivity",
        summary="Share of the response's statements that are wrong but come from a relevant context.",
        ragas_class="NoiseSensitivity",
        fields=("user_input", "response", "reference", "retrieved_contexts"),
        calls=lambda contexts: 2 * contexts + 3,
        explain=explain_wrong_statements,
        version=2,
        silent=_not_applicable,
        nothing_retrieved=_not_applicable,
        direction=Direction.LOWER,
        usual_limits=(None, 0.5),
    ),
)


def _expected(exchange: Exchange) -> str:
    return str(read_needed(exchange, Need.EXPECTED)[0])


def _reference_contexts(exchange: Exchange) -> str:
    return "\n".join(read_needed(exchange, Need.REFERENCE_CONTEXTS))


_READ: Mapping[str, Callable[[Exchange], Any]] = {
    "user_input": lambda exchange: exchange.sample.question,
    "response": lambda exchange: exchange.response,
    "retrieved_contexts": lambda exchange: list(read_needed(exchange, Need.CONTEXT)),
    "reference": _expected,
}
_NEEDS = {"retrieved_contexts": Need.CONTEXT, "reference": Need.EXPECTED}


def _define(row: _Judged) -> MetricDefinition:
    needs = {Need.JUDGE, *(_NEEDS[name] for name in row.fields if name in _NEEDS)}
    if row.embedded:
        needs.add(Need.EMBEDDINGS)
    return MetricDefinition(
        name=row.name,
        summary=row.summary,
        engine=_SUPPORT_ENGINE if row.needs_support else "ragas",
        build=lambda context: _build(row, context, _READ),
        needs=frozenset(needs),
        direction=row.direction,
        bounds=row.bounds,
        usual_limits=row.usual_limits,
        judge_calls=row.calls,
        judge_draws=row.draws,
        control=row.control,
        judged_part=row.judged_part,
        version=row.version,
        scores_answers="response" in row.fields,
    )


def _define_context_recall(row: _Judged) -> MetricDefinition:
    """Return context_recall with gold passages as reference. ragas' default is `reference: expected`."""
    by_answer = frozenset({Need.JUDGE, Need.CONTEXT, Need.EXPECTED})
    by_passages = frozenset({Need.JUDGE, Need.CONTEXT, Need.REFERENCE_CONTEXTS})

    reference = Parameter("reference", str, ("reference_contexts", "expected"), "reference_contexts")

    def needs_of(parameters: Mapping[str, Value]) -> frozenset[Need]:
        return by_answer if parameters.get("reference") == "expected" else by_passages

    def build(context: BuildContext) -> Scorer:
        read = _expected if context.parameters.get("reference") == "expected" else _reference_contexts
        return _build(row, context, {**_READ, "reference": read})

    return replace(_define(row), needs=by_passages, needs_of=needs_of, build=build, parameters=(reference,))


def _read_prompted(exchange: Exchange) -> list[str]:
    """Return the contexts that an answer could rest on."""
    found = exchange.prompt_contexts
    return list(read_needed(exchange, Need.CONTEXT) if found is None else found)


def _build(row: _Judged, context: BuildContext, read: Mapping[str, Callable[[Exchange], Any]]) -> Scorer:
    services = context.services
    if row.needs_support:
        read = {**read, "retrieved_contexts": _read_prompted}

    async def score(exchange: Exchange) -> Score:
        fields = {name: read[name](exchange) for name in row.fields}
        settled = _settle_without_judge(row, exchange, fields)
        if settled is not None:
            return settled
        from evalspec.scoring.judge.verdicts import NothingStated

        try:
            if row.needs_support and _is_blank(fields["retrieved_contexts"]):
                stated = await services.list_statements(fields["user_input"], fields["response"], metric=row.name)
                return Score.scored(0.0, *explain_no_support(stated))
            graded = await services.grade(row.ragas_class, fields, metric=row.name, embedded=row.embedded)
        except NothingStated as nothing:
            return _score_nothing_stated(row, fields, nothing.text)
        if graded.value != graded.value:
            raise MetricError("ragas returned no number for the judge's verdicts")
        reason, evidence = row.explain(graded)
        value = QUESTIONS[row.name].score(evidence) if row.name in QUESTIONS else graded.value
        return Score.scored(round(value, _DECIMALS), reason, evidence)

    return score


def _settle_without_judge(row: _Judged, exchange: Exchange, fields: Mapping[str, Any]) -> Score | None:
    """Return the score of an exchange with nothing to judge, without a judge call; otherwise None."""
    if row.silent is not None and not fields["response"].strip():
        return row.silent("the response is empty", Cause.REPLY)
    if row.silent is _not_applicable and is_abstention(fields["response"]):
        if exchange.sample.answerable is False:
            return Score.not_applicable("the response declines a question that has no answer", Cause.DATASET)
        return Score.not_applicable("the response declines to answer", Cause.REPLY)
    if row.nothing_retrieved is not None and _is_blank(fields["retrieved_contexts"]):
        if exchange.reply is None or exchange.reply.retrieved_contexts is None:
            return row.nothing_retrieved("the sample's context is empty", Cause.DATASET)
        return None if row.needs_support else row.nothing_retrieved("nothing was retrieved", Cause.REPLY)
    return None


def _is_blank(texts: Sequence[str]) -> bool:
    return not any(text.strip() for text in texts)


def _score_nothing_stated(row: _Judged, fields: Mapping[str, Any], text: str) -> Score:
    """Return the score if the judge found no statement in the response, or in its reference."""
    if text == fields["response"] and row.silent is not None:
        return row.silent("the judge found no statement in the response", Cause.JUDGE)
    return Score.not_applicable("the judge found no statement in the reference", Cause.JUDGE)


def _complement(score: Score) -> Score:
    """Return hallucination from faithfulness: 1 − value. A score without a value is unchanged."""
    return score if score.value is None else structs.replace(score, value=1.0 - score.value)


JUDGED = tuple(_define_context_recall(row) if row.name == "context_recall" else _define(row) for row in _TABLE)
HALLUCINATION = MetricDefinition(
    name="hallucination",
    summary="Share of the response's statements that the retrieved contexts do not support: 1 − faithfulness.",
    engine=_SUPPORT_ENGINE,
    needs=frozenset({Need.JUDGE, Need.CONTEXT}),
    direction=Direction.LOWER,
    implicit=True,
    base="faithfulness",
    derive=_complement,
    usual_limits=(None, 0.5),
)
