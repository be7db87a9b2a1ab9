"""The interactive form of `evalspec label`."""

from collections.abc import Mapping

from evalspec.base.errors import ExitCode
from evalspec.cli.case_session import CaseSession, require_terminal
from evalspec.cli.labelling.screen import NOTE, WHOLE, explain_keys, keys_of, render_case
from evalspec.cli.screen import Screen
from evalspec.curation.labels.binding import Case
from evalspec.curation.labels.session import LabelSession
from evalspec.model.labels import LabelVerdict

_BACK = "Ctrl-D: go back"


def require_label_terminal() -> None:
    """Check that there is a terminal for a session.

    Raises:
        InvalidInput: There is none.
    """
    require_terminal("a labelling session", "without one: evalspec label RUN --sample ID --verdict VERDICT")


def run_label_session(session: LabelSession, again: str) -> ExitCode:
    """Let a person label on a terminal. `again`: the command that continues.

    Raises:
        CommandFailed: Interrupted. All labels are kept.
    """
    return _LabelSession(session).run(again)


class _LabelSession(CaseSession[Case]):
    """A session that labels replies or scores."""

    decision, whole = "the label on", WHOLE

    def __init__(self, session: LabelSession) -> None:
        super().__init__(session)
        self._session = session
        self._note: str | None = None

    def name(self, case: Case) -> str:
        """Return the id of the sample."""
        return case.sample

    def list_keys(self, case: Case) -> Mapping[str, str]:
        """Return the keys with their meanings."""
        return keys_of(case)

    def render(self, case: Case, progress: str, screen: Screen, *, whole: bool) -> str:
        """Return a reply, or a score with its reason and evidence."""
        return render_case(case, progress, screen, whole=whole)

    def explain(self, case: Case) -> str:
        """Return what the verdicts mean."""
        return explain_keys(case)

    def begin(self) -> None:
        """Forget the note on the case before."""
        super().begin()
        self._note = None

    def answer(self, case: Case, meaning: str) -> bool:
        """Read a note, or record a verdict."""
        if meaning == NOTE:
            self._read_note()
            return False
        typed: str | None = ""
        if meaning == LabelVerdict.DISAGREE:
            typed = self.read_text(f"The score that you would have given (Enter: unknown; {_BACK}):")
        try:
            value = float(typed) if typed else None
        except ValueError:
            self.say(f"'{typed}' is not a number; nothing was recorded")
            return True
        if typed is None:
            self.say("nothing was recorded")
            return True
        self._session.record(case, meaning, value=value, note=self._note)
        self.say(f"{case.sample}: {meaning}; u takes it back")
        return True

    def _read_note(self) -> None:
        note = self.read_text(f"A note for your verdict (Enter: none; {_BACK}):")
        if note is None:
            self.say("the note is unchanged")
            return
        self._note = note or None
        self.say("noted; now decide" if note else "no note")
