"""The page that compares runs: samples that flipped first, then what may be said about each metric."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

from fastapi import APIRouter, Query
from fastapi.responses import HTMLResponse, Response
from msgspec import Struct

from evalspec.base.errors import InvalidInput, StoreError
from evalspec.model import ScoreStatus
from evalspec.model.comparisons import RankMove
from evalspec.reports.markup.elements import Element, group
from evalspec.reports.markup.run import draw_comparison
from evalspec.reports.markup.shown import Layout, lay_out
from evalspec.reports.markup.text_budget import TextBudget
from evalspec.reports.markup.views import LONGEST
from evalspec.reports.rows import AttemptRow
from evalspec.reports.transcript import ShownCall, read_turns
from evalspec.reports.view.parts import Role
from evalspec.reports.word_changes import TextPiece, mark_differences
from evalspec.service.access import Access
from evalspec.service.comparing import (
    CandidateFlips,
    ComparisonContent,
    Flip,
    compute_content,
    count_samples,
    describe_request,
    load_content,
)
from evalspec.service.jobs import JobStatus
from evalspec.service.pages.run_lists import list_run
from evalspec.service.pages.run_sources import RunLinks
from evalspec.service.pages.templating import render_page
from evalspec.service.pages.visits import Visit, Visitor, see_other
from evalspec.service.places import hide_folder
from evalspec.service.problems import ApiProblem
from evalspec.service.requested_jobs import find_same_job, start_job
from evalspec.service.run_index import RunFilter
from evalspec.service.sample_builds import SMALL
from evalspec.service.sample_pages import SampleDetails, find_sample
from evalspec.verdict.comparison.sample_changes import compare_texts
from evalspec.verdict.comparison.wording import render_moves
from evalspec.verdict.wording import UNKNOWN, render_value

_SCORES_SHOWN = 8
ROUTER = APIRouter(include_in_schema=False)
KIND = "comparison_page"
_RUNS_OFFERED = 100
_MOST_CANDIDATES = 5
_FLIPS_SHOWN = 10
_TEXT_BYTES = 60_000
Name = Annotated[str, Query(max_length=200)]
Names = Annotated[list[str], Query(max_length=10)]


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
    calls: tuple[tuple[ShownCall, ...], tuple[ShownCall, ...]]
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
        return access.find_indexed(run_id)
    except (ApiProblem, StoreError):  # the rest of the comparison is shown without texts
        return None


def _show(before: Path | None, after: Path | None, flips: Sequence[Flip]) -> Iterator[ShownFlip]:
    for flip in flips:
        old = None if before is None else find_sample(before, flip.dataset, flip.id)
        new = None if after is None else find_sample(after, flip.candidate_dataset, flip.id)
        if old is None or new is None or not old.attempts or not new.attempts:
            yield ShownFlip(flip, None, None, None, (None, None), ((), ()), (), "", "")
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
        (_list_calls(one), _list_calls(other)),
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


def _list_calls(row: AttemptRow) -> tuple[ShownCall, ...]:
    return tuple(call for turn in read_turns(row) for call in turn.calls or ())


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


class ShownCandidate(Struct, frozen=True):
    """A candidate, and its first flips with their texts."""

    found: CandidateFlips
    failing: list[ShownFlip]
    passing: list[ShownFlip]
    changed: list[ShownFlip]


class ComparedOutcome(Struct, frozen=True):
    """A comparison: its content, or why there is none (yet). `can_force`: the runs are not comparable."""

    content: ComparisonContent | None = None
    errors: tuple[str, ...] = ()
    is_waiting: bool = False
    can_force: bool = False


@ROUTER.get("/compare", response_model=None)
def compare(
    visit: Visitor,
    baseline: Name = "",
    candidate: Names = [],  # noqa: B006 - FastAPI copies it
    run: Names = [],  # noqa: B006
    force: Name = "",
) -> Response:
    """Show a comparison, or a form to choose the runs. `run`: chosen runs; the oldest is the baseline."""
    if len(run) > 1:
        first, *others = sorted(run)
        place = visit.link("/compare", baseline=first, candidate=",".join(others))
        return see_other(place)
    candidates = [name for given in [*candidate, *run] for name in given.split(",") if name][:_MOST_CANDIDATES]
    outcome = ComparedOutcome()
    if baseline and candidates:
        outcome = _compare(visit, describe_request(baseline, candidates, allow_mismatch=bool(force)))
    return _render(visit, baseline, candidates, outcome)


def _compare(visit: Visit, asked: dict[str, Any]) -> ComparedOutcome:
    kept = load_content(visit.project, asked)
    if kept is not None:
        return ComparedOutcome(kept)
    try:
        if count_samples(visit.access, asked) <= SMALL:
            return ComparedOutcome(compute_content(visit.project, asked))
    except InvalidInput as error:
        messages = tuple(hide_folder(problem.message, visit.project.folder) for problem in error.problems)
        return ComparedOutcome(errors=messages, can_force=not asked["allow_mismatch"])
    return _follow_job(visit, asked)


def _follow_job(visit: Visit, asked: dict[str, Any]) -> ComparedOutcome:
    """Let a worker compare large runs, unless one does already."""
    job = find_same_job(visit.access, KIND, asked)
    if job is not None and job.status == JobStatus.FAILED:
        return ComparedOutcome(errors=((job.error or "the comparison failed"),), can_force=not asked["allow_mismatch"])
    if job is None or not job.is_open:
        start_job(visit.access, KIND, asked, "compare")
    return ComparedOutcome(is_waiting=True)


def _render(visit: Visit, baseline: str, candidates: Sequence[str], outcome: ComparedOutcome) -> HTMLResponse:
    content = outcome.content
    offered = visit.access.runs.list(RunFilter(status="finished"), _RUNS_OFFERED)
    if not baseline and len(offered) > 1:  # the newest two are offered
        candidates = candidates or [offered[0].id]
        baseline = next(entry.id for entry in offered if entry.id not in candidates[:1])
    layout = lay_out(content.view) if content else Layout((), ())
    return render_page(
        "compare.html",
        visit,
        baseline=baseline,
        candidates=candidates,
        offered=[list_run(entry) for entry in offered],
        outcome=outcome,
        content=content,
        layout=layout,
        flips=_show_candidates(visit, content) if content else [],
        sections=_draw_sections(visit, content, layout) if content else None,
        room=TextBudget(_TEXT_BYTES),
        force_link=visit.link("/compare", baseline=baseline, candidate=",".join(candidates), force="1"),
        this_link=visit.link("/compare", baseline=baseline, candidate=",".join(candidates)),
    )


class ComparisonLinks(Struct, frozen=True):
    """The addresses that a comparison links to: the samples of a run, if it is about only one. Sections have none."""

    run: RunLinks | None
    longest: Mapping[Role, int]

    def sample(self, dataset: str, id: str) -> str | None:
        """Return the address of a sample. None: it has none."""
        return None if self.run is None else self.run.sample(dataset, id)

    def section(self, at: str, page: int | None = None) -> None:
        """Return None: the rest of a section is in the forms of report."""


def _draw_sections(visit: Visit, content: ComparisonContent, layout: Layout) -> Element:
    is_single = len(content.candidates) == 1
    links = ComparisonLinks(RunLinks(visit, content.candidates[0].run_id) if is_single else None, LONGEST)
    return group(draw_comparison(content.view, layout.sections, links))


def _show_candidates(visit: Visit, content: ComparisonContent) -> list[ShownCandidate]:
    def show(run_id: str, *kinds: Sequence[Flip]) -> Iterator[list[ShownFlip]]:
        for flips in kinds:
            yield show_flips(visit.access, content.baseline_id, run_id, flips[:_FLIPS_SHOWN])

    return [ShownCandidate(one, *show(one.run_id, one.failing, one.passing, one.changed)) for one in content.candidates]
