"""Flips with the texts of both runs: question, both answers with the words that differ, and moved documents."""

from collections.abc import Iterator, Sequence
from pathlib import Path

from msgspec import Struct

from evalspec.base.errors import StoreError
from evalspec.model import ScoreStatus
from evalspec.model.comparisons import RankMove
from evalspec.reports.rows import AttemptRow
from evalspec.reports.word_changes import TextPiece, mark_differences
from evalspec.service.access import Access
from evalspec.service.pages.comparison_content import Flip
from evalspec.service.problems import ApiProblem
from evalspec.service.sample_pages import SampleDetails, find_sample
from evalspec.verdict.comparison.sample_changes import compare_texts
from evalspec.verdict.comparison.wording import render_moves
from evalspec.verdict.wording import UNKNOWN, render_value

_SCORES_SHOWN = 8


class ScoreMove(Struct, frozen=True):
    """A score in both runs."""

    metric: str
    before: str
    after: str


class ShownFlip(Struct, frozen=True):
    """A flip with its texts, which are None if they are not kept. `attempt`: which one is shown, empty for the only."""

    flip: Flip
    question: str | None
    baseline: tuple[TextPiece, ...] | None
    candidate: tuple[TextPiece, ...] | None
    errors: tuple[str | None, str | None]
    scores: tuple[ScoreMove, ...]
    moves: str
    attempt: str


def show_flips(access: Access, baseline_id: str, candidate_id: str, flips: Sequence[Flip]) -> list[ShownFlip]:
    """Return flips with their texts, as far as both runs keep them."""
    folders = [_find_indexed(access, run_id) for run_id in (baseline_id, candidate_id)] if flips else [None, None]
    return list(_show(folders[0], folders[1], flips))


def _find_indexed(access: Access, run_id: str) -> Path | None:
    """Return the folder of a run whose samples can be read. None: it is a promoted baseline, or not indexed yet."""
    try:
        entry, folder = access.runs.find(run_id), access.runs.find_folder(run_id)
        access.service.samples.require(folder, entry.samples)
    except (ApiProblem, StoreError):  # the rest of the comparison is shown without texts
        return None
    return folder


def _show(before: Path | None, after: Path | None, flips: Sequence[Flip]) -> Iterator[ShownFlip]:
    for flip in flips:
        old = None if before is None else find_sample(before, flip.dataset, flip.id)
        new = None if after is None else find_sample(after, flip.candidate_dataset, flip.id)
        if old is None or new is None or not old.attempts or not new.attempts:
            yield ShownFlip(flip, None, None, None, (None, None), (), "", "")
        else:
            yield _show_pair(flip, old, new)


def _show_pair(flip: Flip, old: SampleDetails, new: SampleDetails) -> ShownFlip:
    one, other, number = _choose_attempts(old, new)
    moves: tuple[RankMove, ...] = ()
    if one.exchange is not None and other.exchange is not None:
        moves = compare_texts(one.exchange, other.exchange).rank_moves
    answers = [_answer_of(one), _answer_of(other)]
    marked: list[tuple[TextPiece, ...] | None] = [None if text is None else (TextPiece(text),) for text in answers]
    if answers[0] is not None and answers[1] is not None:
        marked = list(mark_differences(answers[0], answers[1]))
    several = len(new.attempts) > 1
    return ShownFlip(
        flip,
        new.row.question if new.row.question is not None else old.row.question,
        marked[0],
        marked[1],
        (one.attempt.error, other.attempt.error),
        tuple(_list_scores(one, other)),
        render_moves(moves) if moves else "",
        f"attempt {number} of {len(new.attempts)}" if several else "",
    )


def _choose_attempts(old: SampleDetails, new: SampleDetails) -> tuple[AttemptRow, AttemptRow, int]:
    """Return the first pair of attempts whose outcomes differ; else the first pair."""
    pairs = list(zip(old.attempts, new.attempts, strict=False))
    changed = (place for place, (one, other) in enumerate(pairs) if one.attempt.passed != other.attempt.passed)
    place = next(changed, 0)
    return *pairs[place], place + 1


def _answer_of(row: AttemptRow) -> str | None:
    return row.exchange.reply.response if row.exchange is not None and row.exchange.reply is not None else None


def _list_scores(one: AttemptRow, other: AttemptRow) -> list[ScoreMove]:
    moves = []
    for metric in dict.fromkeys([*one.scores, *other.scores]):
        before, after = _render_score(one, metric), _render_score(other, metric)
        if before != after:
            moves.append(ScoreMove(metric, before, after))
    return moves[:_SCORES_SHOWN]


def _render_score(row: AttemptRow, metric: str) -> str:
    score = row.scores.get(metric)
    if score is None:
        return UNKNOWN
    if score.status is ScoreStatus.SCORED and score.value is not None:
        return render_value(metric, score.value)
    return str(score.status).replace("_", " ")
