"""The page on which a person decides on one case after the other: a triple of a gold set, a reply or a score of a run.

No session is kept: the address says which case was skipped last, and the decisions are files. `case.html` lays the page
out. What is shown and asked is in a template for each kind of case.
"""

from collections.abc import Callable, Mapping
from http import HTTPStatus
from typing import Any

from fastapi.responses import HTMLResponse
from msgspec import Struct

from evalspec.base.errors import InvalidInput
from evalspec.curation.case_queue import CaseQueue
from evalspec.reports.markup.text_budget import TextBudget
from evalspec.runs.store.files import DiskFull
from evalspec.service.pages.templating import render_page
from evalspec.service.pages.visits import Visit
from evalspec.service.places import hide_folder
from evalspec.service.problems import ApiProblem

TEXT_BYTES = 100_000
"""The room for texts on a page that does not show them in full."""


class FilledForm(Struct, frozen=True):
    """What a person has filled in, to be shown again if it is refused."""

    verdict: str = ""
    category: str = ""
    note: str = ""
    value: str = ""


class Refusal(Struct, frozen=True):
    """Why nothing was recorded. `form`: what the person had filled in."""

    errors: tuple[str, ...]
    status: int = HTTPStatus.CONFLICT
    form: FilledForm = FilledForm()


NOT_REFUSED = Refusal((), HTTPStatus.OK)


class LastDecision(Struct, frozen=True):
    """The visitor's newest decision, which a button takes back. `action`, `fields`: where and what the button sends."""

    case: str
    said: str
    action: str
    fields: Mapping[str, str]


class CasePage(Struct, frozen=True):
    """What every such page has. `shown`: the case; None: it is the end, or it cannot be decided on.

    `queue`: None if the address names the case. `again`: the address of the queue; `skip`: of the next case.
    `whole_link`: the page with all texts. `text_bytes`: the room for texts; None: unlimited.
    """

    person: str
    again: str
    shown: Any
    queue: CaseQueue[Any, Any, Any] | None = None
    skip: str | None = None
    last: LastDecision | None = None
    whole_link: str | None = None
    refusal: Refusal = NOT_REFUSED
    text_bytes: int | None = TEXT_BYTES

    def render(self, template: str, visit: Visit, **values: Any) -> HTMLResponse:
        """Return the page. `template`: of the kind of case. `values`: what only that one shows."""
        room = TextBudget(self.text_bytes, self.whole_link)
        given = {"page": self, "shown": self.shown, "room": room, "whole_link": self.whole_link}
        return render_page(template, visit, self.refusal.status, **given, **values)


def find_refusal(
    visit: Visit, record: Callable[[], object], form: FilledForm, *, is_current: bool = True
) -> Refusal | None:
    """Record something, unless the person saw something else than is there now. Return why nothing was recorded."""
    if not is_current:
        return Refusal(("it was changed after it was shown. read it again",), form=form)
    try:
        record()
    except InvalidInput as error:
        return Refusal(describe_errors(error, visit), form=form)
    except DiskFull as error:
        errors = (hide_folder(str(error), visit.project.folder),)
        return Refusal(errors, HTTPStatus.SERVICE_UNAVAILABLE, form)
    except ApiProblem as problem:
        return Refusal((problem.detail,), problem.status, form)
    return None


def describe_errors(error: InvalidInput, visit: Visit) -> tuple[str, ...]:
    """Return what is wrong, with places in the project."""
    return tuple(hide_folder(problem.render(), visit.project.folder) for problem in error.problems)
