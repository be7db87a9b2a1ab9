"""Check that a score may be computed from the judge's answer, which ragas takes on trust.

ragas divides by the number of verdicts in the answer and adds up whatever integers they have. With ragas 0.4.3, four
statements with one verdict give a faithfulness of 1.0, and a verdict of 2 a context precision of 2.0. ragas does not
check which statement a verdict is about, and pairs verdicts of several requests by position. This module compares each
answer with what was sent, and puts it in that order. It depends on the names and fields of ragas' response models, not
on its classes.
"""

import json
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from msgspec import Struct

from evalspec.base.text import excerpt
from evalspec.scoring.judge.belonging import compute_coverage, content_words, find_unsupported, strip_courtesies
from evalspec.scoring.judge.extraction import UnusableVerdict
from evalspec.scoring.judge.matching import match_statements, parse_label, simplify
from evalspec.scoring.judge.quoting import escape_json
from evalspec.scoring.judge.wording import split_words

Answer = Mapping[str, Any]
Given = Mapping[str, Any]

FREE_TEXT = "DiscreteResponseModel"
"""The response model of a free-text prompt, which has no structured input to extract."""

_LEAST_COVERAGE = 0.5
"""The lowest coverage of 50 fair paraphrases in 12 languages (tests/judge/paraphrases.jsonl)."""
_MOST_REPLACED = 3
"""Texts with so few content words may be paraphrased without any of them."""
_QUOTED = 80

_INPUT_MARK = "\nNow perform the same with the following input\ninput: "
_OUTPUT_MARK = "\nOutput: "


class StatementVerdict(Struct, frozen=True):
    """An accepted answer of the judge. `kind`: ragas' response model. `given`: the input of its prompt."""

    kind: str
    given: Given
    answer: Answer


class Graded(Struct, frozen=True):
    """A value that ragas computed, and its verdicts in the order of the requests.

    `value` is NaN if ragas has no number.
    """

    value: float
    verdicts: tuple[StatementVerdict, ...]

    def answers(self, kind: str) -> list[Answer]:
        """Return the answers of one kind."""
        return [verdict.answer for verdict in self.verdicts if verdict.kind == kind]


class NothingStated(Exception):
    """The judge found no statement in `text`, so there is nothing to give verdicts on."""

    def __init__(self, text: str) -> None:
        super().__init__("the judge found no statement")
        self.text = text


def parse_input(prompt: str) -> tuple[str, Given]:
    """Return one of ragas' structured prompts with its input quoted as ours is, and the input, which is at its end.

    The mark cannot occur in the input itself, which has line ends escaped.
    """
    head, mark, rest = prompt.rpartition(_INPUT_MARK)
    return head + mark + escape_json(rest), json.loads(rest.removesuffix(_OUTPUT_MARK))


def settle_answer(kind: str, given: Given, answer: Answer) -> Answer:
    """Return the answer with verdicts in the order of the statements sent, and with their texts.

    Raises:
        UnusableVerdict: the answer must not become a score.
        KeyError: the response model has no check here, so it is not accepted unchecked.
    """
    return _SETTLE[kind](given, answer)


def explain_nothing_stated(kind: str, given: Given, answer: Answer) -> str | None:
    """Return the text in which the judge found no statement; None for any other answer."""
    if kind not in _DECOMPOSED:
        return None
    statements, source = _DECOMPOSED[kind]
    return None if answer[statements] else given[source]


_DECOMPOSED = {
    "StatementGeneratorOutput": ("statements", "answer"),
    "ClaimDecompositionOutput": ("claims", "response"),
}
"""Fields of a decomposition: its statements in the answer, and the text in the prompt's input."""


def _settle_statements(given: Given, answer: Answer) -> Answer:
    """Check the statements. A judge that resolves pronouns uses words of the question too."""
    return _settle_parts("statements", answer, given["answer"], given["question"])


def _settle_claims(given: Given, answer: Answer) -> Answer:
    return _settle_parts("claims", answer, given["response"])


def _settle_parts(field: str, answer: Answer, source: str, question: str = "") -> Answer:
    """Check that the texts break down the source. None at all says that it states nothing."""
    _check_texts(field, answer[field], source, question)
    if answer[field]:
        _check_coverage(field, answer[field], source, "text", "break down every sentence, in its own words")
    return answer


def _settle_support(given: Given, answer: Answer) -> Answer:
    asked, items = given["statements"], answer["statements"]
    if len(asked) != len(items):
        raise UnusableVerdict(f"it has {len(items)} verdicts for {len(asked)} statements")
    _check_binary("verdict", items)
    positions = _match(asked, items, [item["verdict"] for item in items])
    return {**answer, "statements": _in_order(asked, items, positions)}


def _settle_recall(given: Given, answer: Answer) -> Answer:
    """Check that the statements are the reference's, each given once. The judge decides how to split the reference."""
    items, reference = answer["classifications"], given["answer"]
    if not items:
        raise UnusableVerdict("it classifies no statement")
    _check_binary("attributed", items)
    statements = [item["statement"] for item in items]
    _check_texts("statements", statements, reference)
    _check_coverage("statements", statements, reference, "reference", "classify every statement of the reference")
    return answer


def _settle_precision(_given: Given, answer: Answer) -> Answer:
    _check_binary("verdict", [answer])
    return answer


def _settle_question(_given: Given, answer: Answer) -> Answer:
    if not answer["question"].strip() and answer["noncommittal"] == 0:
        raise UnusableVerdict("its question is empty")
    _check_binary("noncommittal", [answer])
    return answer


def _settle_correctness(given: Given, answer: Answer) -> Answer:
    """Order the statements. The answer's are true or false positives, the ground truth's false negatives."""
    asked, truth = given["answer"], given["ground_truth"]
    right, wrong, missed = answer["TP"], answer["FP"], answer["FN"]
    if len(right) + len(wrong) != len(asked):
        got = len(right) + len(wrong)
        raise UnusableVerdict(f"it puts {got} statements in TP and FP, but the answer has {len(asked)}")
    if len(missed) > len(truth):
        raise UnusableVerdict(f"it puts {len(missed)} statements in FN, but the ground truth has {len(truth)}")
    positions = _match(asked, [*right, *wrong], [1] * len(right) + [0] * len(wrong))
    return {
        **answer,
        "TP": _in_order(asked, right, positions[: len(right)]),
        "FP": _in_order(asked, wrong, positions[len(right) :]),
        "FN": _in_order(truth, missed, _match(truth, missed, [0] * len(missed))),
    }


def _settle_outcome(_given: Given, answer: Answer) -> Answer:
    if not (answer["user_goal"].strip() and answer["end_state"].strip()):
        raise UnusableVerdict("its user_goal or its end_state is blank")
    return answer


def _settle_topics(_given: Given, answer: Answer) -> Answer:
    """Check the topics. Each is asked about, so that none may occur twice."""
    topics = [simplify(topic) for topic in answer["topics"]]
    if not all(topics) or len(set(topics)) < len(topics):
        raise UnusableVerdict("one of its topics is blank or occurs twice")
    return answer


def _settle_classes(given: Given, answer: Answer) -> Answer:
    """Check that each topic has a class: ragas fills in missing ones, and drops what is too much."""
    if len(answer["classifications"]) != len(given["topics"]):
        raise UnusableVerdict(f"it classifies {len(answer['classifications'])} of {len(given['topics'])} topics")
    return answer


def _settle_as_is(_given: Given, answer: Answer) -> Answer:
    """Return the answer, whose values are limited by its schema."""
    return answer


def _match(asked: Sequence[str], items: Sequence[Answer], labels: Sequence[int]) -> list[int]:
    return match_statements(asked, [item["statement"] for item in items], labels)


def _in_order(asked: Sequence[str], items: Sequence[Answer], positions: Sequence[int]) -> list[Answer]:
    placed = dict(zip(positions, items, strict=True))
    return [{**placed[position], "statement": asked[position]} for position in sorted(placed)]


def _check_binary(field: str, items: Sequence[Answer]) -> None:
    wrong = [item[field] for item in items if item[field] not in (0, 1)]
    if wrong:
        raise UnusableVerdict(f"its {field} is {wrong[0]}, which is neither 0 nor 1")


def _check_texts(field: str, texts: Sequence[str], source: str, question: str = "") -> None:
    """Check that the texts break down `source`. Words of the question are accepted too."""
    if not all(map(simplify, texts)):
        raise UnusableVerdict(f"one of its {field} is blank")
    stranger = find_unsupported(texts, f"{question}\n{source}")
    if stranger is not None:
        raise UnusableVerdict(
            f"its {field} include {excerpt(stranger, _QUOTED)}, which has no word in common with the text to break down"
        )
    _check_repetition(texts, source, question)


def _check_coverage(field: str, texts: Sequence[str], source: str, name: str, way_on: str) -> None:
    """Check that the texts have enough of the words of the source, not counting its courtesies."""
    stated = strip_courtesies(source)
    coverage = compute_coverage(texts, stated)
    if coverage < _LEAST_COVERAGE and len(content_words(stated)) > _MOST_REPLACED:
        raise UnusableVerdict(
            f"its {field} have {100 * coverage:.0f} % of the {name}'s words, but need at least "
            f"{100 * _LEAST_COVERAGE:g} %; {way_on}"
        )


def _check_repetition(statements: Sequence[str], source: str, question: str) -> None:
    """Check that no statement is repeated more often than in the source. Overlapping passages repeat statements."""
    whole = simplify(source)
    positions = defaultdict(list)
    for position, statement in enumerate(statements):
        positions[simplify(statement)].append(position)
    for text, found in positions.items():
        times = len(found)
        if times > max(1, whole.count(text)):
            labels = {position: parse_label(statements[position]) for position in found}
            if not _are_words(labels, f"{question}\n{source}"):
                raise UnusableVerdict(f"it repeats {excerpt(text, _QUOTED)} {times} times; give each statement once")


def _are_words(labels: Mapping[int, str | None], text: str) -> bool:
    """Return whether labels, by the positions of their statements, belong to the text, as in "1. May" and "2. May".

    All must differ. Each must either occur in the text, or differ from a numbering of the list.
    """
    if len(set(labels.values())) < len(labels):
        return False
    return all(label and (_has_label(text, label) or not _numbers(label, at)) for at, label in labels.items())


def _has_label(text: str, label: str) -> bool:
    if label.isdecimal():
        return find_unsupported([label], text) is None
    return label in map(str.casefold, split_words(text))


def _numbers(label: str, position: int) -> bool:
    """Return whether numbering a list from 0, 1 or a gives this label to this position."""
    return int(label) - position in (0, 1) if label.isdecimal() else ord(label) - ord("a") == position


_SETTLE: Mapping[str, Callable[[Given, Answer], Answer]] = {
    "StatementGeneratorOutput": _settle_statements,
    "ClaimDecompositionOutput": _settle_claims,
    "NLIStatementOutput": _settle_support,
    "StatementFaithfulnessOutput": _settle_support,
    "ContextRecallOutput": _settle_recall,
    "ContextPrecisionOutput": _settle_precision,
    "AnswerRelevanceOutput": _settle_question,
    "ClassificationWithReason": _settle_correctness,
    "WorkflowOutput": _settle_outcome,
    "CompareOutcomeOutput": _settle_as_is,
    "TopicExtractionOutput": _settle_topics,
    "TopicRefusedOutput": _settle_as_is,
    "TopicClassificationOutput": _settle_classes,
    FREE_TEXT: _settle_as_is,
}
