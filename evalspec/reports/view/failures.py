"""Failed samples with their texts: question, expected answer, answer with differing words marked, and the reason."""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

from evalspec.base.foreign_text import cut
from evalspec.base.plural import counted
from evalspec.inputs.manifest.metric_spec import split_column
from evalspec.model import DatasetResult, Exchange, Score, StoredExchange
from evalspec.reports.view.parts import Entries, Entry, Foreign, Line, Role, Tone, Words, prose
from evalspec.reports.word_changes import TextPiece, mark_differences
from evalspec.reports.worst import FailedSample
from evalspec.verdict.wording import render_beyond, render_value

FailureTexts = Mapping[tuple[str, str], Sequence[StoredExchange]]
"""The attempts at samples with their texts, by dataset and id of the sample."""

_LONGEST = 400
"""Maximum characters of a text."""
_PASSAGE = 48
"""Maximum characters of a passage without an id."""
_CONTEXTS = 8
_COMPARED = 4000
"""Characters of an answer that are compared to find the nearest expected one."""
_LACKS = {"string_match": "does not contain", "exact_match": "differs from"}
"""What a score of 0 says about the answer, for metrics that only quote it."""


def read_failure_texts(
    exchanges: Iterable[StoredExchange], wanted: Collection[tuple[str, str]], attempts: int
) -> FailureTexts:
    """Return the texts of the wanted samples. `attempts`: how many each sample has. The rest is not read."""
    found: dict[tuple[str, str], list[StoredExchange]] = {}
    left = len(wanted) * attempts
    for one in exchanges if wanted else ():
        key = one.dataset, one.exchange.sample.id
        if key in wanted:
            found.setdefault(key, []).append(one)
            left -= 1
            if not left:
                break
    return found


def build_failures(dataset: DatasetResult, troubles: Sequence[FailedSample], texts: FailureTexts) -> Entries | None:
    """Return the samples whose texts are known, or None if there are none. The others are counted."""
    shown = [(one, texts[dataset.name, one.id]) for one in troubles if texts.get((dataset.name, one.id))]
    entries = tuple(_build_entry(trouble, attempts, dataset.file) for trouble, attempts in shown)
    return Entries("sample", entries, more=len(troubles) - len(entries)) if entries else None


def _build_entry(trouble: FailedSample, attempts: Sequence[StoredExchange], file: str | None) -> Entry:
    number, shown = _choose(trouble, attempts)
    lines = (*_text_lines(shown.exchange), *_reason_lines(trouble, shown))
    several = (f", attempt {number} of {len(attempts)}",) if len(attempts) > 1 else ()
    place = (", ", Foreign(f"{file}:{trouble.line}")) if file and trouble.line else ()
    return Entry(Foreign(trouble.id, Role.SAMPLE), (*describe_failure(trouble), *several, *place), Tone.FAIL, lines)


def _choose(trouble: FailedSample, attempts: Sequence[StoredExchange]) -> tuple[int, StoredExchange]:
    """Return the attempt that is furthest beyond the limit, with its number from 1; without a limit, the first."""

    def weigh(place: int) -> float:
        if place < len(trouble.passed):
            return float(trouble.passed[place] is False)
        score = attempts[place].scores.get(trouble.metric or "")
        if score is None or score.value is None or trouble.limit is None:
            return float(attempts[place].exchange.reply is None)
        return trouble.limit.excess(score.value)

    best = max(range(len(attempts)), key=lambda place: (weigh(place), -place))
    return best + 1, attempts[best]


def describe_failure(trouble: FailedSample) -> Words:
    """Return why a sample failed: `Recall@5 0.500 is below 0.95`."""
    if trouble.passed:
        return (f"{trouble.passed.count(True)} of {counted(len(trouble.passed), 'attempt')} passed",)
    if trouble.metric is None:
        return ("no usable reply",)
    if trouble.value is None:
        return (Foreign(trouble.metric), " could not be scored")
    value = render_value(trouble.metric, trouble.value)
    if trouble.before is not None:
        return (Foreign(trouble.metric), f" {value}, {render_value(trouble.metric, trouble.before)} in the baseline")
    if trouble.limit is None:
        return (Foreign(trouble.metric), f" {value}")
    part = (" in ", Foreign(trouble.limit.slice)) if trouble.limit.slice else ()
    return (Foreign(trouble.metric), f" {render_beyond(trouble.value, trouble.limit)}", *part)


def _text_lines(exchange: Exchange) -> Iterator[Line]:
    sample, answer = exchange.sample, exchange.answer
    if sample.user_input:
        yield Line((Foreign(cut(_flatten(sample.question), _LONGEST), Role.TEXT),), label="question")
    given = None if answer is None else _flatten(answer)
    yield from build_answers(given, [_flatten(one) for one in sample.references], _LONGEST)
    if exchange.ranking is not None or exchange.retrieved_contexts is not None:
        titles = name_contexts(exchange)
        words = () if titles else ("none",)
        yield Line((*words, *join_words(titles[:_CONTEXTS])), more=max(len(titles) - _CONTEXTS, 0), label="contexts")


def _flatten(text: str) -> str:
    return " ".join(text.split())


def build_answers(answer: str | None, references: Sequence[str], longest: int | None = None) -> Iterator[Line]:
    """Yield lines with the expected answers and the given one, with the words marked in which they differ.

    The given answer is compared with the nearest of the expected ones. `longest`: maximum characters of a text.
    If it is not None, only the nearest expected answer is shown.
    """
    pairs = [mark_differences(answer or "", reference) for reference in references]
    nearest = _find_nearest(answer or "", references)
    given: tuple[TextPiece, ...] = pairs[nearest][0] if pairs else (TextPiece(answer or ""),)
    shown = range(len(pairs)) if longest is None else range(nearest, nearest + bool(pairs))
    for place in shown:
        expected = _excerpt(pairs[place][1], given, longest)
        yield Line(expected, more=len(pairs) - len(shown), label="or" if place > shown[0] else "expected")
    if answer is not None:
        words = _excerpt(given, pairs[nearest][1] if pairs else (), longest)
        yield Line(words if answer else ("(empty)",), label="got")


def _find_nearest(answer: str, references: Sequence[str]) -> int:
    """Return the place of the expected answer that is most similar to the given one, 0 if there is no choice."""
    if len(references) < 2:
        return 0
    from rapidfuzz.distance import Indel

    alike = [Indel.normalized_similarity(answer[:_COMPARED], one[:_COMPARED]) for one in references]
    return alike.index(max(alike))


def _excerpt(pieces: Sequence[TextPiece], others: Sequence[TextPiece], longest: int | None) -> Words:
    """Return at most `longest` characters of a text around its first difference from the other text."""
    length = sum(len(piece.text) for piece in pieces)
    if longest is None or length <= longest:
        return tuple(Foreign(piece.text, Role.TEXT, piece.differs) for piece in pieces)
    change = _find_change(pieces, others)
    start = 0 if change < longest * 3 // 4 else min(change - longest // 4, length - longest + 1)
    end = start + longest - bool(start) - (start + longest - bool(start) < length)
    words = [Foreign("…", Role.TEXT)] if start else []
    at = 0
    for piece in pieces:
        if shown := piece.text[max(start - at, 0) : max(end - at, 0)]:
            words.append(Foreign(shown, Role.TEXT, piece.differs))
        at += len(piece.text)
    return (*words, Foreign("…", Role.TEXT)) if end < length else tuple(words)


def _find_change(pieces: Sequence[TextPiece], others: Sequence[TextPiece]) -> int:
    """Return where a text begins to differ from the other: at its first marked word, or after their common start."""
    at = 0
    for piece in pieces:
        if piece.differs:
            return at
        at += len(piece.text)
    one, other = ("".join(piece.text for piece in side) for side in (pieces, others))
    return next((place for place, pair in enumerate(zip(one, other, strict=False)) if pair[0] != pair[1]), 0)


def explain_score(metric: str, score: Score, exchange: Exchange) -> str | None:
    """Return the reason of a score. If it only quotes the answer, which is shown, say what the answer lacks."""
    references = exchange.sample.references
    if score.reason != exchange.answered:
        return score.reason
    lacks = _LACKS.get(split_column(metric).base)
    if lacks is None or score.value != 0.0 or not references:
        return None
    more = f" (+{len(references) - 1} more)" if len(references) > 1 else ""
    return f"{lacks} '{cut(_flatten(references[0]), _PASSAGE)}'{more}"


def name_contexts(exchange: Exchange) -> list[Words]:
    """Return the retrieved documents, best first, by id or by their first words. Relevant ones have a mark."""
    if exchange.ranking is not None:
        grades = exchange.sample.qrels or {}
        return [(Foreign(one), " ✓") if grades.get(one, 0) > 0 else (Foreign(one),) for one in exchange.ranking]
    golden = exchange.sample.reference_contexts or ()
    return [
        (Foreign(cut(_flatten(text), _PASSAGE), Role.PROSE), *([" ✓"] if text in golden else []))
        for text in exchange.retrieved_contexts or ()
    ]


def join_words(items: Sequence[Words]) -> Words:
    """Return items as a list in one line."""
    return tuple(piece for number, item in enumerate(items) for piece in ((", ", *item) if number else item))


def _reason_lines(trouble: FailedSample, shown: StoredExchange) -> Iterator[Line]:
    score = shown.scores.get(trouble.metric or "")
    stored = score.reason if score else None
    reason = stored or trouble.reason or shown.exchange.error
    if score and stored == shown.exchange.answered:
        reason = explain_score(trouble.metric or "", score, shown.exchange)
    if reason:
        yield Line(prose(cut(reason, _LONGEST)), label="why")
    if trouble.others:
        names = tuple((Foreign(metric),) for metric in trouble.others)
        yield Line(join_words(names), tone=Tone.QUIET, label="also")
