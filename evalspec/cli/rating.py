"""A session on a terminal in which a person scores drawn replies by the questions that the judge answers."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from msgspec import Struct

from evalspec.base.errors import ExitCode
from evalspec.base.foreign_text import inert
from evalspec.cli.case_session import CaseView
from evalspec.cli.keyboard import END, ESCAPE
from evalspec.cli.label_screen import SHARED_KEYS, TerminalLabelSession, build_score, describe_label_case
from evalspec.cli.screen import Screen, build_body, find_screen, render_parts
from evalspec.curation.labels.binding import Case
from evalspec.curation.labels.cases import LabelledRun
from evalspec.curation.labels.drawing import LabelDesign
from evalspec.curation.labels.drawn_session import DrawnSession
from evalspec.curation.labels.rating import RatingForm, make_form
from evalspec.model.corrections import DrawKind
from evalspec.model.labels import Answer, LabelVerdict
from evalspec.runs.store.run_store import STORE, RunStore

_RATE = "score"
_KEYS = {"r": _RATE} | SHARED_KEYS
_BACK = "Ctrl-D: go back"
_CHANGE, _REMOVE = "change", "remove"
_EDITS = {_CHANGE: "change the text", _REMOVE: "leave it out: it is not a statement"}
_MEANINGS = {"yes": "it is so", "no": "it is not"}
_HELP = """\
r asks the questions that the judge answers, and the score follows from your answers. Judge only what the metric \
measures. Skip what you cannot judge.

The judge's score, its reason and its verdicts are shown after your label. If you change a label after that, only the \
first one corrects the judge, and if you take it back, none does. n writes a note for your next label on this reply."""
_HELP_OF_LISTS = "You may correct the judge's list of statements: change, leave out, add."


def open_drawn_session(
    run: str, by: str, given: Mapping[str, Any], describe_again: Callable[[str, str, Mapping[str, Any]], str]
) -> ExitCode:
    """Let a person score drawn replies on a terminal. `given`: the options by name.

    Raises:
        InvalidInput: There is no such run, dataset or metric, people cannot score it, or no threshold can be decided.
        CommandFailed: Interrupted. All labels are kept.
    """
    opened = LabelledRun(RunStore(STORE), run)
    session = DrawnSession(opened, by, _read_design(given))
    return _RatingSession(session).run(describe_again(opened.id, by, given))


def _read_design(given: Mapping[str, Any]) -> LabelDesign:
    """Return the design of the options by name."""
    kind = DrawKind.STRATIFIED if given["stratify"] or given["new"] else DrawKind.RANDOM
    kind = DrawKind.SEQUENTIAL if given["until_decided"] else kind
    return LabelDesign(given["metric"], kind, given["random"], given["seed"], tuple(given["datasets"]), given["new"])


class _Given(Struct, frozen=True):
    """What a person says about a reply: a score, or answers that make one."""

    value: float | None = None
    answers: Sequence[Answer] = ()


class _RatingSession(TerminalLabelSession):
    """A session that hides what the judge says until the person has said it."""

    def __init__(self, session: DrawnSession) -> None:
        super().__init__(session)
        self._drawn = session

    def list_keys(self, case: Case) -> Mapping[str, str]:  # noqa: ARG002
        """Return the keys with their meanings."""
        return _KEYS

    def describe(self, case: Case, screen: Screen) -> CaseView:
        """Return a reply without its score."""
        return describe_label_case(case, screen, hides_score=True)

    def explain(self, case: Case) -> str:
        """Return what is asked, with the text of a rubric."""
        form = make_form(case)
        return "\n\n".join(filter(None, [form.asked, form.rubric, _HELP_OF_LISTS if form.may_edit else "", _HELP]))

    def finish(self) -> None:
        """Print that a session that decides a threshold has not, or that labels had done so before it."""
        if self._drawn.is_undecided:
            self.say("the threshold is not decided yet")
        elif self._drawn.stopped and not any(self._drawn.count_decisions().values()):
            self.say(self._drawn.stopped)

    def answer(self, case: Case, meaning: str) -> bool:
        """Read a note, or ask for a score and record it."""
        if meaning != _RATE:
            return super().answer(case, meaning)
        given = self._ask(make_form(case))
        if given is None:
            self.say("nothing was recorded")
            return True
        made = self._drawn.record(case, LabelVerdict.RATED, value=given.value, note=self.note, answers=given.answers)
        back = "u takes it back, and then none of yours here corrects the judge"
        self.say(f"{case.sample}: you say {made.value:.4g}; {back}")
        if not made.is_blind:
            self.say("this label does not correct the judge: you have seen the judge's score before")
        self._show_judge(case)
        if self._drawn.stopped:
            self.say(self._drawn.stopped)
        return True

    def _show_judge(self, case: Case) -> None:
        reason = case.score.reason if case.score else None
        shown = build_score(case) or build_body(f"The judge has no score: {reason or 'unknown reason'}")
        self.show(render_parts(list(shown), find_screen()))

    def _ask(self, form: RatingForm) -> _Given | None:
        """Return what the person says; None if they go back."""
        if form.texts:
            answers = self._ask_each(form)
            return None if answers is None else _Given(answers=answers)
        if form.grades:
            self.say(*([form.rubric] if form.rubric else []))
            graded = self._ask_one(form, form.asked, {})
            return None if graded is None else _Given(form.grades[graded])
        typed = self.read_text(f"{form.asked} ({_BACK})")
        return None if not typed else _Given(self._read_number(typed))

    def _read_number(self, typed: str) -> float | None:
        try:
            return float(typed.replace(",", "."))
        except ValueError:
            self.say(f"'{typed}' is not a number")
            return None

    def _ask_each(self, form: RatingForm) -> list[Answer] | None:
        answers: list[Answer] = []
        for number, text in enumerate(form.texts, 1):
            answer = self._ask_about(form, text, f"{number} of {len(form.texts)}: ")
            if answer is None:
                return None
            answers += answer
        while form.may_edit and (added := self.read_text("A statement that is missing (Enter: none):")):
            answers += self._ask_about(form, added, "") or []
        return answers

    def _ask_about(self, form: RatingForm, text: str, place: str) -> list[Answer] | None:
        """Return the answer about a text, none if it is left out; None if the person goes back."""
        said = self._ask_one(form, f"{form.asked} {place}{inert(text)}", _EDITS if form.may_edit else {})
        if said == _CHANGE:
            changed = self.read_text(f"The text instead ({_BACK}):")
            return self._ask_about(form, changed or text, place)
        if said == _REMOVE:
            return []
        return None if said is None else [Answer(text, form.grades[said])]

    def _ask_one(self, form: RatingForm, title: str, more: Mapping[str, str]) -> str | None:
        """Return a grade or one of `more`; None if the person goes back."""
        grades = {name: _MEANINGS.get(name, f"scores {score:g}") for name, score in form.grades.items()}
        said = self.choose(title, {**grades, **more}, "Esc: go back")
        return None if said in (ESCAPE, END) else said
