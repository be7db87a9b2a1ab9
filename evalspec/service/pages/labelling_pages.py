"""The page on which a person labels replies or scores of a run. The address says which. The labels are files."""

from collections.abc import Mapping, Sequence
from http import HTTPStatus
from typing import Annotated

from fastapi import APIRouter, Depends, Form
from fastapi.responses import HTMLResponse, Response
from msgspec import Struct

from evalspec.base.errors import InvalidInput
from evalspec.curation.labels.binding import Case, compute_reply_digest
from evalspec.curation.labels.rating import make_form
from evalspec.curation.labels.session import LabelSession
from evalspec.model.labels import Answer, Label, LabelVerdict
from evalspec.reports.markup.sample_content import ShownAttempt, ShownSample, ShownScore
from evalspec.service.assignments_api import keep_share
from evalspec.service.indexed_run import IndexedRun, open_indexed_run
from evalspec.service.labelling import (
    BEYOND,
    DRAWS,
    MOST_DIGITS,
    find_case,
    parse_number,
    read_design,
    record_label,
    start_session,
)
from evalspec.service.pages.case_pages import (
    NOT_REFUSED,
    TEXT_BYTES,
    CasePage,
    FilledForm,
    LastDecision,
    Refusal,
    find_refusal,
)
from evalspec.service.pages.labels_pages import LabelForm, list_choices, render_verdict, show_form
from evalspec.service.pages.run_sources import read_content, show_details
from evalspec.service.pages.samples_pages import find_at
from evalspec.service.pages.visits import Reviewer, Visit, see_other
from evalspec.service.parameters import AddressQuery
from evalspec.service.problems import not_found
from evalspec.service.sample_pages import SampleDetails, find_row, find_sample

ROUTER = APIRouter(include_in_schema=False)

_FILTERS = ("metric", "dataset", "state", "tag", "size", "seed", "draw", "assignment")
_LEFT_OUT = "left out"
_OF_CASE = ("at", "attempt", "about", "back", "last", "after", "after_attempt", "whole")

Given = Annotated[dict[str, str], Depends(AddressQuery(*_FILTERS, *_OF_CASE, state=(BEYOND,), draw=tuple(DRAWS)))]

Verdict = Annotated[LabelVerdict, Form()]
Words = Annotated[str, Form(max_length=20_000)]


class ShownCase(Struct, frozen=True):
    """One reply or score to judge. `score`: None for a reply. `position`: of the sample in the run."""

    sample: ShownSample
    attempt: ShownAttempt
    score: ShownScore | None
    form: LabelForm
    position: int
    whole_link: str


class OpenLabelling(Struct, frozen=True):
    """A run as one person labels it. `chosen`: the filters of the address."""

    visit: Visit
    run: IndexedRun
    chosen: Mapping[str, str]

    def link(self, **query: str | int | None) -> str:
        """Return the address of this page."""
        return self.visit.link_run(self.run.id, "/label", **{**self.chosen, **query})

    def link_case(self, position: int, attempt: int, metric: str | None, **query: str | int | None) -> str:
        """Return the address of one case."""
        return self.link(at=position, attempt=attempt, about=metric, **query)


@ROUTER.get("/runs/{run_id}/label")
def show_next(run_id: str, visit: Reviewer, given: Given) -> HTMLResponse:
    """Show one reply or score to label: that of the address, or the next."""
    opened = _open_run(given, run_id, visit)
    if "at" in given:
        return _render(opened, given, _find_given(opened.run, given))
    try:
        by = visit.access.caller.user
        session = start_session(opened.run, by, opened.chosen)
        keep_share(visit.access, opened.run, session, given.get("assignment"))
        _skip(opened, session, given)
    except InvalidInput as error:
        errors = tuple(problem.message for problem in error.problems)
        return _render(opened, given, refusal=Refusal(errors, HTTPStatus.UNPROCESSABLE_ENTITY))
    return _render(opened, given, session.open(), session)


@ROUTER.post("/runs/{run_id}/label", response_model=None)
def record_verdict(
    run_id: str,
    visit: Reviewer,
    given: Given,
    verdict: Verdict,
    seen: Annotated[str, Form(max_length=100)] = "",
    note: Words = "",
    value: Words = "",
    texts: Annotated[list[str], Form(max_length=1000)] = [],  # noqa: B006 - FastAPI copies it
    answers: Annotated[list[str], Form(max_length=1000)] = [],  # noqa: B006
) -> Response:
    """Record a label, and show what the visitor labels next. `seen`: the digest of the reply that was shown.

    `texts`, `answers`: what the visitor answers to the questions of the judge, the same number of each.
    """
    opened = _open_run(given, run_id, visit)
    case = _find_given(opened.run, given)

    def record() -> None:
        said = None if verdict is LabelVerdict.WITHDRAWN else note
        number = _parse_value(value)
        given_answers = _read_answers(case, texts, answers) if verdict is LabelVerdict.RATED else []
        record_label(
            visit.access, opened.run, case, verdict,
            value=number, note=said, seen=seen or None, answers=given_answers, design=read_design(opened.chosen),
        )  # fmt: skip

    refusal = find_refusal(visit, record, FilledForm(note=note, value=value))
    if refusal is not None:
        return _render(opened, given, case, refusal=refusal)
    position, attempt, metric = given["at"], case.attempt, given.get("about")
    if "back" in given:
        place = visit.link_sample(run_id, case.dataset, case.sample, int(position))
    elif verdict is LabelVerdict.WITHDRAWN:
        place = opened.link_case(int(position), attempt, metric)
    else:
        place = opened.link(after=position, after_attempt=attempt, last=1)
    return see_other(place or opened.link())


def _open_run(given: Mapping[str, str], run_id: str, visit: Visit) -> OpenLabelling:
    run = open_indexed_run(visit.access, run_id)
    return OpenLabelling(visit, run, {name: given[name] for name in _FILTERS if given.get(name)})


def _read_answers(case: Case, texts: Sequence[str], answers: Sequence[str]) -> list[Answer]:
    """Return the answers of a form. Lines without a text, and those that are left out, are none.

    `texts`: as the person has edited them; not used if nobody may.

    Raises:
        InvalidInput: A question has no answer.
    """
    form = make_form(case)
    grades, texts = form.grades, texts if form.may_edit else form.texts or (form.asked,)
    pairs = [(text.strip(), answer) for text, answer in zip(texts, answers, strict=False) if text.strip()]
    if not grades:
        return []
    if any(answer not in (*grades, _LEFT_OUT) for _, answer in pairs):
        raise InvalidInput("answer each question")
    return [Answer(text, grades[answer]) for text, answer in pairs if answer != _LEFT_OUT]


def _skip(opened: OpenLabelling, session: LabelSession, given: Mapping[str, str]) -> None:
    """Continue after the case that was shown last."""
    dataset, id = find_at(opened.run.folder, given.get("after", ""))
    attempt = parse_number(given.get("after_attempt"), "the attempt") or 1
    if dataset:
        session.start_after((dataset, id, attempt, opened.chosen.get("metric")))


def _parse_value(text: str) -> float | None:
    if not text.strip():
        return None
    try:
        value = float(text.strip().replace(",", "."))
    except ValueError:
        raise InvalidInput(f"'{text[:30]}' is not a number") from None
    if value != value or value in (float("inf"), float("-inf")):
        raise InvalidInput("the score has to be finite")
    return value


def _find_given(run: IndexedRun, given: Mapping[str, str]) -> Case:
    """Return the case of an address.

    Raises:
        ApiProblem: 404: The run has none, or it cannot be read any more.
    """
    dataset, id = find_at(run.folder, given.get("at", ""))
    number = given.get("attempt", "1")
    if not dataset or not number.isdecimal() or len(number) > MOST_DIGITS:
        raise not_found(f"run {run.id} has no such sample")
    return find_case(run, dataset, id, int(number), given.get("about"), is_rated="draw" in given)


def _render(
    opened: OpenLabelling,
    given: Mapping[str, str],
    case: Case | None = None,
    session: LabelSession | None = None,
    *,
    refusal: Refusal = NOT_REFUSED,
) -> HTMLResponse:
    visit, run = opened.visit, opened.run
    content = read_content(visit.access, run.id)
    shown = _show_case(opened, case, is_back="back" in given) if case is not None else None
    skip = opened.link(after=shown.position, after_attempt=shown.attempt.number) if shown else None
    page = CasePage(
        visit.access.caller.user,
        opened.link(),
        shown,
        session,
        skip if "at" not in given else None,
        _find_last(opened) if "last" in given else None,
        shown.whole_link if shown else None,
        refusal,
        None if "whole" in given else TEXT_BYTES,
    )
    return page.render(
        "label.html",
        visit,
        run_id=run.id,
        has_several=len(run.outlines) > 1,
        chosen=opened.chosen,
        whole_queue=opened.link(assignment=None) if "assignment" in opened.chosen else None,
        **list_choices(run),
        file=next((one.file for one in content.charts if shown and one.dataset == shown.sample.dataset), None),
        back_link=visit.link_sample(run.id, shown.sample.dataset, shown.sample.id, shown.position) if shown else None,
    )


def _show_case(opened: OpenLabelling, case: Case, *, is_back: bool) -> ShownCase:
    found = _read_details(opened.run, case)
    limits = read_content(opened.visit.access, opened.run.id).limits.get(case.dataset, {})
    sample, metric, position = show_details(found, limits), case.target[3], found.row.position
    attempt = next(one for one in sample.attempts if one.number == case.attempt)
    score = next((one for one in attempt.scores if one.metric == metric), None)
    labels = [one for one in opened.run.read_labels() if one.target == case.target]
    action = opened.link_case(position, case.attempt, metric, back=1 if is_back else None)
    digest = compute_reply_digest(case.exchange)
    is_drawn = "draw" in opened.chosen
    rating = make_form(case) if is_drawn else None
    form = show_form(opened.visit, opened.run, case.target, digest, labels, action, rating)
    whole_link = opened.link_case(position, case.attempt, metric, whole=1)
    return ShownCase(sample, attempt, score if metric and not is_drawn else None, form, position, whole_link)


def _read_details(run: IndexedRun, case: Case) -> SampleDetails:
    found = find_sample(run.folder, case.dataset, case.sample)
    if found is None:
        raise not_found(f"run {run.id} has no such sample")
    return found


def _find_last(opened: OpenLabelling) -> LastDecision | None:
    """Return the visitor's newest label on the run, None if it was withdrawn."""
    own = [one for one in opened.run.read_labels() if one.labeller == opened.visit.access.caller.user]
    newest = max(own, key=lambda one: one.at, default=None)
    if newest is None or newest.verdict is LabelVerdict.WITHDRAWN:
        return None
    row = find_row(opened.run.folder, newest.dataset, newest.sample)
    if row is None:
        return None
    action = opened.link_case(row.position, newest.attempt, newest.metric)
    said = f"{render_verdict(newest)}{_say_judge(opened.run, newest)}"
    return LastDecision(newest.sample, said, action, {"verdict": str(LabelVerdict.WITHDRAWN)})


def _say_judge(run: IndexedRun, label: Label) -> str:
    """Return what the judge says, after a person has given a score without sight of it."""
    case = run.read_case(label.target) if label.verdict is LabelVerdict.RATED else None
    if case is None or case.score is None:
        return ""
    if case.score.value is None:
        return "; the judge has no score"
    because = f": {case.score.reason}" if case.score.reason else ""
    return f"; the judge says {case.score.value:.4g}{because}"
