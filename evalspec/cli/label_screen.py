"""What a person sees and presses to label replies and scores on a terminal."""

from collections.abc import Mapping, Sequence
from typing import Any

from evalspec.base.errors import ExitCode
from evalspec.base.foreign_text import inert, visible
from evalspec.base.json_text import render_line
from evalspec.cli.case_session import CaseSession, CaseView, require_terminal
from evalspec.cli.screen import Screen, build_body, build_excerpt, build_heading, build_marked, clean
from evalspec.curation.gold.passages import find_different, find_shared
from evalspec.curation.labels.binding import Case
from evalspec.curation.labels.session import VERDICT_KEYS, LabelSession
from evalspec.model import Message, Score
from evalspec.model.labels import OF_REPLIES, OF_SHOWN_SCORES, LabelVerdict

_BACK = "Ctrl-D: go back"
_NOTE, _WHOLE = "note", "whole"
SHARED_KEYS = {"n": _NOTE, "s": "skip", "u": "undo", "w": _WHOLE, "?": "help", "q": "quit"}
KEYS_OF_REPLIES = {VERDICT_KEYS[verdict]: str(verdict) for verdict in OF_REPLIES} | SHARED_KEYS
KEYS_OF_SCORES = {VERDICT_KEYS[verdict]: str(verdict) for verdict in OF_SHOWN_SCORES} | SHARED_KEYS

_HELP_OF_REPLIES = """\
A reply is good if you would send it to the person who asked: it answers the question, and what it says is right. \
Otherwise it is bad. Skip what you cannot judge."""
_HELP_OF_SCORES = """\
Agree if you would have given this score, or one that means the same. Otherwise disagree; then write the score that \
you would have given. Judge only what the metric measures, not whether you like the reply. Skip \
what you cannot judge."""
_HELP = """\
n writes a note for your next verdict on this reply. In the answer, words that the expected answer does not have are \
marked, and the other way around; in contexts, words of the answer.

Undo takes your last label back. Nobody's labels are shown here, because labels are blind.

Each label is written to .evalspec/verdicts/ at once, so you can quit at any time and continue later."""


def require_label_terminal(otherwise: str) -> None:
    """Check that there is a terminal for a session. `otherwise`: what to do without one.

    Raises:
        InvalidInput: There is none.
    """
    require_terminal("a labelling session", otherwise)


def run_label_session(session: LabelSession, again: str) -> ExitCode:
    """Let a person label on a terminal. `again`: the command that continues.

    Raises:
        CommandFailed: Interrupted. All labels are kept.
    """
    return TerminalLabelSession(session).run(again)


class TerminalLabelSession(CaseSession[Case]):
    """A session that labels replies or scores."""

    decision, whole = "the label on", _WHOLE

    def __init__(self, session: LabelSession) -> None:
        super().__init__(session)
        self._session = session
        self.note: str | None = None

    def name(self, case: Case) -> str:
        """Return the id of the sample."""
        return case.sample

    def list_keys(self, case: Case) -> Mapping[str, str]:
        """Return the keys with their meanings."""
        return KEYS_OF_REPLIES if case.metric is None else KEYS_OF_SCORES

    def describe(self, case: Case, screen: Screen) -> CaseView:
        """Return a reply, or a score with its reason and evidence."""
        return describe_label_case(case, screen)

    def explain(self, case: Case) -> str:
        """Return what verdicts and keys mean."""
        return f"{_HELP_OF_REPLIES if case.metric is None else _HELP_OF_SCORES}\n\n{_HELP}"

    def begin(self) -> None:
        """Forget the note on the case before."""
        super().begin()
        self.note = None

    def answer(self, case: Case, meaning: str) -> bool:
        """Read a note, or record a verdict."""
        if meaning == _NOTE:
            self._read_note()
            return False
        typed: str | None = ""
        if meaning == LabelVerdict.DISAGREE:
            typed = self.read_text(f"The score that you would have given ({_BACK}):")
        try:
            value = float(typed) if typed else None
        except ValueError:
            self.say(f"'{typed}' is not a number; nothing was recorded")
            return True
        if typed is None:
            self.say("nothing was recorded")
            return True
        self._session.record(case, meaning, value=value, note=self.note)
        self.say(f"{case.sample}: {meaning}; u takes it back")
        return True

    def _read_note(self) -> None:
        note = self.read_text(f"A note for your verdict (Enter: none; {_BACK}):")
        if note is None:
            self.say("the note is unchanged")
            return
        self.note = note or None
        self.say("noted; now decide" if note else "no note")


def describe_label_case(case: Case, screen: Screen, *, hides_score: bool = False) -> CaseView:
    """Return a reply with question, contexts and expected answer, or a score with its reason and evidence."""
    attempt = f" attempt {case.attempt}" if case.attempt > 1 else ""
    head = _build_question(case.exchange.sample.user_input)
    if case.exchange.retrieved_contexts is None:
        head += [build_heading("Contexts"), "  (none are known)", ""]
    tail = [*_build_answers(case, screen), *([] if hides_score else build_score(case))]
    return CaseView(f"{case.dataset}: {case.sample}{attempt}", head, _build_contexts(case, screen), tail)


def _build_question(asked: str | Sequence[Message]) -> list[Any]:
    if isinstance(asked, str):
        return [build_heading("Question"), *build_body(asked), ""]
    turns = (line for turn in asked for line in build_body(f"{turn.role}: {turn.content}"))
    return [build_heading("Conversation"), *turns, ""]


def _build_contexts(case: Case, screen: Screen) -> list[tuple[Any, Any]]:
    """Return the contexts with their headings, and with the words marked that the answer has too."""
    texts = [clean(context) for context in case.exchange.retrieved_contexts or ()]
    spans = [find_shared(text, [case.exchange.response]) for text in texts]
    marked = [build_marked(text, own, screen) for text, own in zip(texts, spans, strict=True)]
    return [(build_heading("Context", _name_context(case, number)), text) for number, text in enumerate(marked, 1)]


def _build_answers(case: Case, screen: Screen) -> list[Any]:
    """Return answer and expected answer, with the words marked that the other one lacks."""
    response, expected = clean(case.exchange.response), [clean(one) for one in case.exchange.sample.references]
    answer = build_marked(response, find_different(response, expected), screen) if expected else response
    parts = [build_heading("Answer"), *(_indent(answer, screen) if response.strip() else ["  (empty)"]), ""]
    for number, one in enumerate(expected):
        marked = build_marked(one, find_different(one, [response]), screen)
        parts += [build_heading("Expected" if not number else "Or"), *_indent(marked, screen), ""]
    return parts


def _indent(text: Any, screen: Screen) -> list[Any]:
    from rich.text import Text

    return list(build_excerpt(Text(text) if isinstance(text, str) else text, None, screen, ""))


def build_score(case: Case) -> list[Any]:
    """Return the judge's score of a case with its reason and evidence; nothing without a value."""
    if case.metric is None or case.score is None or case.score.value is None:
        return []
    judge = f"by {inert(case.identity['judge'].partition(' #')[0])}" if "judge" in case.identity else ""
    parts: list[Any] = [build_heading(f"Score: {inert(case.metric.name)}", judge), f"  {_say_value(case.score)}"]
    if case.score.reason:
        parts += build_body(case.score.reason)
    return [*parts, *_build_evidence(case.score.evidence_or_none), ""]


def _say_value(score: Score) -> str:
    said = f"{score.value:.4g}"
    return f"{said}, the mean of {', '.join(f'{one:.4g}' for one in score.repeats)}" if len(score.repeats) > 1 else said


def _build_evidence(evidence: Any) -> list[Any]:
    """Return the basis of a score: of lists of objects a line for each, all else as JSON."""
    if evidence is None:
        return []
    parts: list[Any] = [build_heading("Evidence")]
    groups = evidence.items() if isinstance(evidence, dict) else [("", evidence)]
    for name, value in groups:
        rows = value if isinstance(value, list) else [value]
        parts += [f"  {inert(str(name))}"] if name else []
        parts += [f"  {number}. {_say_evidence(row)}" for number, row in enumerate(rows, 1)]
    return parts


def _say_evidence(row: Any) -> str:
    if isinstance(row, dict):
        return "; ".join(f"{inert(str(key))}: {_say_evidence(value)}" for key, value in row.items())
    return inert(row) if isinstance(row, str) else visible(render_line(row))


def _name_context(case: Case, number: int) -> str:
    ids = case.exchange.ranking or ()
    return f"{number}  {inert(ids[number - 1])}" if number <= len(ids) else f"{number}"
