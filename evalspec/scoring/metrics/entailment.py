"""claim_entailment: compare a response with the expected answer, claim by claim."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from evalspec.base.errors import MetricError
from evalspec.model import CLAIMS_KEY, Exchange, Need, Score
from evalspec.scoring.metrics.base import BuildContext, ControlKind, MetricDefinition, Scorer
from evalspec.scoring.metrics.evidence import quote_text
from evalspec.scoring.metrics.questions import ENTAILED

if TYPE_CHECKING:
    from evalspec.scoring.judge.services import JudgeServices

_NAME = "claim_entailment"
_MISSING, _CONTRADICTED = "missing", "contradicted"


def _build(context: BuildContext) -> Scorer:
    services = context.services

    async def score(exchange: Exchange) -> Score:
        given = _read_claims(exchange)
        if not exchange.response.strip():
            return Score.scored(0.0, "the response is empty")
        claims = given or await _split(services, exchange)
        question = exchange.sample.question
        return _combine(await services.judge_claims(question, exchange.response, claims, metric=_NAME))

    return score


def _read_claims(exchange: Exchange) -> list[str] | None:
    """Return the claims in the sample's metadata, each once; None if it has none.

    Raises:
        MetricError: the metadata is not a list of texts, or the sample has no expected answer.
    """
    if not exchange.sample.reference or not exchange.sample.reference.strip():
        raise MetricError("the sample has no expected answer")
    claims = exchange.sample.metadata.get(CLAIMS_KEY)
    if claims is None:
        return None
    if not isinstance(claims, Sequence) or isinstance(claims, str) or not claims:
        raise MetricError(f"metadata.{CLAIMS_KEY} is not a list of the claims of the expected answer")
    if not all(isinstance(claim, str) and claim.strip() for claim in claims):
        raise MetricError(f"metadata.{CLAIMS_KEY} has an entry that is not text")
    return list(dict.fromkeys(claims))


async def _split(services: "JudgeServices", exchange: Exchange) -> list[str]:
    """Return the statements of the expected answer; the whole answer if the judge finds no statement in it."""
    from evalspec.scoring.judge.verdicts import NothingStated

    expected = exchange.sample.reference or ""
    try:
        found = await services.list_statements(exchange.sample.question, expected, metric=_NAME)
    except NothingStated:
        return [expected]
    return list(dict.fromkeys(found))


def _combine(judged: Sequence[tuple[str, str, str]]) -> Score:
    """Return the score of claims, given as (claim, reason, verdict)."""
    missed = {
        verdict: [claim for claim, _, given in judged if given == verdict] for verdict in (_CONTRADICTED, _MISSING)
    }
    entailed = len(judged) - sum(map(len, missed.values()))
    evidence: dict[str, Any] = {
        "claims": [{"statement": claim, "reason": reason, "verdict": verdict} for claim, reason, verdict in judged],
        "entailed": entailed,
        **{verdict: len(claims) for verdict, claims in missed.items()},
    }
    said = [f"{len(claims)} {verdict}: {quote_text(claims[0])}" for verdict, claims in missed.items() if claims]
    reason = "; ".join([f"{entailed} of {len(judged)} claims entailed", *said]) if said else None
    return Score.scored(ENTAILED.score(evidence), reason, evidence)


CLAIM_ENTAILMENT = MetricDefinition(
    name=_NAME,
    summary="Share of the expected answer's claims that the response entails.",
    engine="evalspec, prompt 2",
    build=_build,
    needs=frozenset({Need.JUDGE, Need.EXPECTED}),
    judge_calls=lambda _contexts: 2,
    control=ControlKind.ANSWER,
)
