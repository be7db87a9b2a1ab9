"""Failed samples with their texts: question, expected answer, answer with differing words marked, and the reason."""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

from evalspec.foreign_text import cut
from evalspec.model import DatasetResult, Exchange, StoredExchange
from evalspec.plural import counted
from evalspec.reporters.view.parts import Entries, Entry, Foreign, Line, Role, Tone, Words, prose
from evalspec.reporters.word_changes import TextPiece, mark_differences
from evalspec.reporters.wording import render_beyond, render_value
from evalspec.reporters.worst import FailedSample

FailureTexts = Mapping[tuple[str, str], Sequence[StoredExchange]]
"""The attempts at samples with their texts, by dataset and id of the sample."""

_LONGEST = 400
"""Maximum characters of a text."""
_PASSAGE = 48
"""Maximum characters of a passage without an id."""
_CONTEXTS = 8


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
    return Entry(Foreign(trouble.id, Role.SAMPLE), (*describe_trouble(trouble), *several, *place), Tone.FAIL, lines)


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


def describe_trouble(trouble: FailedSample) -> Words:
    """Return why a sample failed: `Recall@5 0.500 is below 0.95`."""
    if trouble.passed:
        return (f"{trouble.passed.count(True)} of {counted(len(trouble.passed), 'attempt')} passed",)
    if trouble.metric is None:
        return ("no usable reply",)
    if trouble.value is None:
        return (Foreign(trouble.metric), " could not be scored")
    if trouble.limit is None:
        return (Foreign(trouble.metric), f" {render_value(trouble.metric, trouble.value)}")
    part = (" in ", Foreign(trouble.limit.slice)) if trouble.limit.slice else ()
    return (Foreign(trouble.metric), f" {render_beyond(trouble.value, trouble.limit)}", *part)


def _text_lines(exchange: Exchange) -> Iterator[Line]:
    sample, reply = exchange.sample, exchange.reply
    if sample.user_input:
        yield Line((Foreign(cut(_flatten(sample.question), _LONGEST), Role.TEXT),), label="question")
    answer = _flatten(reply.response) if reply else None
    yield from build_answers(answer, [_flatten(one) for one in sample.references[:1]], _LONGEST)
    if exchange.ranking is not None or exchange.retrieved_contexts is not None:
        titles = name_contexts(exchange)
        words = () if titles else ("none",)
        yield Line((*words, *join_words(titles[:_CONTEXTS])), more=max(len(titles) - _CONTEXTS, 0), label="contexts")


def _flatten(text: str) -> str:
    return " ".join(text.split())


def build_answers(answer: str | None, references: Sequence[str], longest: int | None = None) -> Iterator[Line]:
    """Yield lines with the expected answers and the given one, with the words marked in which they differ.

    The given answer is compared with the first of the expected ones.
    """
    given: tuple[TextPiece, ...] = (TextPiece(answer),) if answer else ()
    for place, reference in enumerate(references):
        marked, expected = mark_differences(answer or "", reference)
        given = given if place or not answer else marked
        yield Line(_mark(expected, longest), label="or" if place else "expected")
    if answer is not None:
        yield Line(_mark(given, longest) or ("(empty)",), label="got")


def _mark(pieces: Sequence[TextPiece], longest: int | None) -> Words:
    words: list[Foreign] = []
    for piece in pieces:
        left = None if longest is None else longest - sum(len(word.text) for word in words)
        if left is not None and left <= 0:
            break
        words.append(Foreign(piece.text if left is None else cut(piece.text, left), Role.TEXT, piece.differs))
    return tuple(words)


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
    reason = (score.reason if score else None) or trouble.reason or shown.exchange.error
    if reason and reason != shown.exchange.answered:  # else the answer itself is above
        yield Line(prose(cut(reason, _LONGEST)), label="why")
    if trouble.others:
        names = tuple((Foreign(metric),) for metric in trouble.others)
        yield Line(join_words(names), tone=Tone.QUIET, label="also")
