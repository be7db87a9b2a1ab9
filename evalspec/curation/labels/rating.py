"""What a person answers to score a reply by a metric as its judge does, and the score of the answers."""

import re
from collections.abc import Mapping, Sequence
from typing import Any

from msgspec import Struct

from evalspec.base.errors import InvalidInput, Problem
from evalspec.curation.labels.binding import Case
from evalspec.inputs.manifest.metric_spec import split_column
from evalspec.model import CLAIMS_KEY, Exchange
from evalspec.model.labels import Answer
from evalspec.scoring.metrics.columns import find_definition
from evalspec.scoring.metrics.preference import OTHER, PREFERENCE
from evalspec.scoring.metrics.questions import QUESTIONS, SAFETY_GRADES, Questions
from evalspec.verdict.outline import MetricOutline

PREFERENCE_GRADES: Mapping[str, float] = {"better": 1.0, "neither": 0.5, "worse": 0.0}
YES_NO: Mapping[str, float] = {"yes": 1.0, "no": 0.0}
_SAFETY = {"toxicity": "How toxic is the answer?", "bias": "How biased against people is the answer?"}
_SENTENCE_END = re.compile(r"(?<=[.!?])\s+|\n+")
_FIX_METRIC = "label the replies, or another metric"


class RatingForm(Struct, frozen=True):
    """What a person is asked about a reply.

    `asked`: the question. `texts`: what it is asked about, with an answer each; empty: the reply as a whole. `grades`:
    the score of each possible answer, by its name; empty: any number within the metric's bounds. `rubric`: the text to
    grade by: a rubric, or the earlier answer. `questions`: how the answers make a score; None: the answer is the score.
    """

    asked: str
    texts: tuple[str, ...] = ()
    grades: Mapping[str, float] = {}
    rubric: str | None = None
    questions: Questions | None = None

    @property
    def may_edit(self) -> bool:
        """Whether the person may change the list of texts, as they may correct the judge's statements."""
        return self.questions is not None and self.questions.about != "contexts"


def make_form(case: Case) -> RatingForm:
    """Return what to ask about the score of a case.

    Raises:
        InvalidInput: People have no score of their own for such a metric.
    """
    metric = case.metric
    if metric is None:
        raise InvalidInput(Problem("a reply as a whole has no score", "add --metric METRIC", field="--metric"))
    check_ratable(metric, case.identity)
    if case.exchange.reply is not None and case.exchange.reply.turns:
        message = f"{case.sample} is a conversation, whose score is made of several answers"
        raise InvalidInput(Problem(message, "label a dataset of single questions", field="--metric"))
    questions = QUESTIONS.get(split_column(metric.name).base)
    if questions is not None:
        return RatingForm(questions.asked, tuple(_list_texts(case, questions)), YES_NO, questions=questions)
    if split_column(metric.name).base == PREFERENCE.name:
        evidence = _find_evidence(case)
        if OTHER not in evidence:
            message = "the run does not have the earlier reply"
            raise InvalidInput(Problem(message, "label another sample", field="--sample"))
        return RatingForm("Is the answer better than the earlier one?", (), PREFERENCE_GRADES, evidence[OTHER])
    if metric.grades:
        return RatingForm("Which grade does the answer get by the rubric?", (), metric.grades, metric.rubric)
    if metric.name in _SAFETY:
        return RatingForm(_SAFETY[metric.name], (), SAFETY_GRADES)
    if _is_binary(metric):
        return RatingForm(f"Would you give {metric.name} a 1?", (), YES_NO)
    return RatingForm(f"Which score of {metric.name} would you give?")


def check_ratable(metric: MetricOutline, identity: Mapping[str, str]) -> None:
    """Check that people can score replies by a metric.

    Raises:
        InvalidInput: It measures similarity of texts, or something without bounds such as a time.
    """
    why = "it compares embeddings" if "embeddings" in identity else "its scores have no bounds"
    if "embeddings" in identity or metric.reach is None:
        message = f"{metric.name} has no score that a person could give: {why}"
        raise InvalidInput(Problem(message, _FIX_METRIC, field="--metric"))


def score_answers(case: Case, value: float | None, answers: Sequence[Answer]) -> float | None:
    """Return the person's score: that of their answers, else the given value.

    Raises:
        InvalidInput: An answer is impossible, or there are too few or too many.
    """
    form = make_form(case)
    if not answers:
        return value
    if value is not None:
        raise InvalidInput(Problem("follows from the answers", "leave it out", field="--value"))
    if any(one.value not in form.grades.values() for one in answers):
        known = ", ".join(f"{value:g} ({name})" for name, value in form.grades.items())
        raise InvalidInput(Problem("an answer is not possible", f"write {known or '--value'}", field="answers"))
    if form.questions is None:
        return _take_only(answers)
    if not form.may_edit and len(answers) != len(form.texts):
        message = f"{len(answers)} answers to {len(form.texts)} questions"
        raise InvalidInput(Problem(message, "answer each of them, in their order", field="answers"))
    return form.questions.formula([bool(one.value) for one in answers])


def _take_only(answers: Sequence[Answer]) -> float:
    if len(answers) != 1:
        raise InvalidInput(Problem("the metric has one question", "give one answer", field="answers"))
    return answers[0].value


def _list_texts(case: Case, questions: Questions) -> Sequence[str]:
    """Return what is asked about: contexts, the statements of the judge, or sentences if the judge has none."""
    exchange = case.exchange
    if questions.about == "contexts":
        return list(exchange.retrieved_contexts or ())
    found = questions.list_texts(_find_evidence(case))
    texts = _list_sources(exchange, questions.about)
    return found or [one.strip() for text in texts for one in _SENTENCE_END.split(text) if one.strip()]


def _find_evidence(case: Case) -> Mapping[str, Any]:
    """Return the evidence of the judge's score, of several gradings that of the first; empty without any."""
    evidence = case.score.evidence_or_none if case.score else None
    first = next(iter(evidence), None) if isinstance(evidence, list | tuple) else evidence
    return first if isinstance(first, Mapping) else {}


def _list_sources(exchange: Exchange, about: str) -> Sequence[str]:
    if about == "response":
        return [exchange.response]
    claims = exchange.sample.metadata.get(CLAIMS_KEY)
    if isinstance(claims, list | tuple):
        return [str(one) for one in claims]
    return list(exchange.sample.reference_contexts or exchange.sample.references[:1])


def _is_binary(metric: MetricOutline) -> bool:
    definition = find_definition(split_column(metric.name).base)
    return definition is not None and definition.is_binary and metric.reach == (0.0, 1.0)
