"""Explain judged scores: one sentence for people, and the judge's verdicts as JSON."""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from evalspec.base.plural import counted, pluralize

if TYPE_CHECKING:
    from evalspec.scoring.judge.verdicts import Graded

Explanation = tuple[str | None, Any]
Explain = Callable[["Graded"], Explanation]

_LONGEST_QUOTE = 120


def explain_goal(graded: "Graded") -> Explanation:
    """Explain agent_goal_accuracy by the goal and the end that the judge sees, and what it says of the difference."""
    (seen,), (compared,) = graded.answers("WorkflowOutput"), graded.answers("CompareOutcomeOutput")
    reason = None if graded.value else f"the conversation ends otherwise: {quote_text(seen['end_state'])}"
    return reason, {**seen, "reason": compared["reason"]}


def explain_topics(graded: "Graded") -> tuple[list[dict[str, Any]], str | None]:
    """Return the topics that the judge found, whether each was answered and may be, and what is wrong in a sentence."""
    topics = [topic for answer in graded.answers("TopicExtractionOutput") for topic in answer["topics"]]
    refused = {one.given["topic"]: one.answer["refused_to_answer"] for one in graded.verdicts if "topic" in one.given}
    allowed = [flag for answer in graded.answers("TopicClassificationOutput") for flag in answer["classifications"]]
    found = [
        {"topic": topic, "answered": not refused[topic], "allowed": flag}
        for topic, flag in zip(topics, allowed, strict=True)
    ]
    wrong = [str(one["topic"]) for one in found if one["answered"] != one["allowed"]]
    return found, _count(wrong, len(found), "topic", "answered or declined wrongly")


def explain_support(graded: "Graded") -> Explanation:
    """Explain faithfulness by the statements with their verdicts."""
    statements = [item for answer in graded.answers("NLIStatementOutput") for item in answer["statements"]]
    against = [item["statement"] for item in statements if not item["verdict"]]
    return _count(against, len(statements), "statement", "not supported"), {"statements": statements}


def explain_no_support(statements: Sequence[str]) -> Explanation:
    """Explain faithfulness of a reply without contexts, in which no statement is supported."""
    verdicts = [{"statement": text, "reason": "the reply has no contexts", "verdict": 0} for text in statements]
    said = _count(statements, len(statements), "statement", "not supported")
    return f"the reply has no contexts; {said}", {"statements": verdicts}


def explain_questions(graded: "Graded") -> Explanation:
    """Explain answer_relevancy by the questions that the response answers according to the judge."""
    questions = graded.answers("AnswerRelevanceOutput")
    if all(question["noncommittal"] for question in questions):
        return "the response is noncommittal", {"questions": questions}
    return f"the response answers: {quote_text(questions[0]['question'])}", {"questions": questions}


def explain_precision(graded: "Graded") -> Explanation:
    """Explain context_precision by a verdict per context, in the order of the ranking."""
    verdicts = graded.answers("ContextPrecisionOutput")
    useful = [rank for rank, verdict in enumerate(verdicts, 1) if verdict["verdict"]]
    if len(useful) == len(verdicts):
        reason = None
    elif useful:
        ranks = ", ".join(str(rank) for rank in useful)
        reason = f"{len(useful)} of {counted(len(verdicts), 'context')} useful, at rank {ranks}"
    else:
        reason = f"none of {counted(len(verdicts), 'context')} is useful"
    return reason, {"contexts": verdicts}


def explain_recall(graded: "Graded") -> Explanation:
    """Explain context_recall by the reference's statements, and whether a context supports each."""
    statements = [item for answer in graded.answers("ContextRecallOutput") for item in answer["classifications"]]
    against = [item["statement"] for item in statements if not item["attributed"]]
    reason = _count(against, len(statements), "reference statement", "not in the contexts")
    return reason, {"statements": statements}


def explain_correctness(graded: "Graded") -> Explanation:
    """Explain answer_correctness by the statements as true positives, false positives and false negatives."""
    sorted_out = graded.answers("ClassificationWithReason")[-1]
    wrong, missing = len(sorted_out["FP"]), len(sorted_out["FN"])
    if not wrong and not missing:
        return None, sorted_out
    right = len(sorted_out["TP"])
    first = (sorted_out["FP"] or sorted_out["FN"])[0]["statement"]
    return f"{right} right, {wrong} wrong, {missing} missing: {quote_text(first)}", sorted_out


def explain_fact_check(graded: "Graded") -> Explanation:
    """Explain factual_correctness by the claims of the response checked against the reference, and vice versa."""
    response, reference = (answer["statements"] for answer in graded.answers("NLIStatementOutput"))
    evidence = {"response": response, "reference": reference}
    wrong = [item["statement"] for item in response if not item["verdict"]]
    missing = [item["statement"] for item in reference if not item["verdict"]]
    reason = _count(wrong, len(response), "claim", "not in the expected answer")
    return reason or _count(missing, len(reference), "expected claim", "missing"), evidence


def explain_wrong_statements(graded: "Graded") -> Explanation:
    """Explain noise_sensitivity by the response's statements checked against the reference, ragas' last step."""
    statements = graded.answers("StatementFaithfulnessOutput")[-1]["statements"]
    against = [item["statement"] for item in statements if not item["verdict"]]
    return _count(against, len(statements), "statement", "wrong"), {"statements": statements}


def _count(against: Sequence[str], total: int, noun: str, what: str) -> str | None:
    """Return text like `2 of 5 statements are not supported: 'the first one'`; None if there are none."""
    if not against:
        return None
    verb = pluralize(len(against), "is", "are")
    return f"{len(against)} of {counted(total, noun)} {verb} {what}: {quote_text(against[0])}"


def quote_text(text: str) -> str:
    """Return a text in quotes on one line, cut to 120 characters."""
    line = " ".join(text.split())
    return f"'{line if len(line) <= _LONGEST_QUOTE else line[: _LONGEST_QUOTE - 1] + '…'}'"
