"""The interactive form of `evalspec label`."""

from evalspec.base.errors import ExitCode, InvalidInput
from evalspec.cli.dialog import Dialog, require_terminal
from evalspec.cli.keyboard import END, ENTER, ESCAPE, RESIZED
from evalspec.cli.labelling.screen import keys_of, render_case, render_label_help
from evalspec.cli.screen import find_screen
from evalspec.cli.streams import notify
from evalspec.curation.labels.binding import Case
from evalspec.curation.labels.session import LabelSession
from evalspec.model.labels import OF_REPLIES, OF_SCORES, LabelVerdict

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
    _LabelDialog(session).converse("every label is kept", again)
    if session.remaining:
        notify(f"{session.remaining} left; to resume: {again}")
    return ExitCode.OK


class _LabelDialog(Dialog):
    def __init__(self, session: LabelSession) -> None:
        self._session = session
        self._whole = False
        self._note: str | None = None

    def run(self) -> None:
        """Go through the cases until the person quits, or none is left."""
        if self._session.current is None:
            done = f", {self._session.total} labelled already" if self._session.total else ""
            self.say(f"nothing to label{done}")
            return
        while (case := self._session.current) is not None or self.wait_at_the_end(self._session):
            self._whole, self._note = False, None
            if case is not None and not self._handle(case):
                return

    def end(self) -> None:
        """Print the number of labels."""
        counts = {verdict: self._session.count(verdict) for verdict in (*OF_REPLIES, *OF_SCORES)}
        said = [f"{count} {verdict}" for verdict, count in counts.items() if count]
        said += [f"{self._session.skipped} skipped"] if self._session.skipped else []
        if said:
            self.say(", ".join(said))

    def _handle(self, case: Case) -> bool:
        """Show a case until the person has decided. Return whether the session continues."""
        self._show(case)
        while (key := self.keyboard.read_key()) not in ("q", END):
            if self._decide(case, key):
                return True
            if key == "n":
                self._ask_note()
            elif key in ("w", RESIZED):
                self._whole = self._whole or key == "w"
                self._show(case)
            elif key == "?":
                self.show(render_label_help(case, find_screen()))
        return False

    def _decide(self, case: Case, key: str) -> bool:
        """Do what a key says about a case. Return whether another case is to be shown."""
        meaning = keys_of(case).get(key)
        if meaning is not None and meaning in tuple(LabelVerdict):
            if self._record(case, meaning):
                return True
            self._show(case)
        elif key == "u":
            return self.undo()
        elif key == "s":
            self.say(f"skipped {case.sample}")
            self._session.skip()
            return True
        elif meaning is None and key not in (ENTER, ESCAPE, RESIZED):
            self.say("unknown key; ? shows help")
        return False

    def _show(self, case: Case) -> None:
        self.keyboard.forget()
        progress = f"{self._session.position} of {self._session.total}"
        self.show(render_case(case, progress, find_screen(), whole=self._whole))

    def _ask_note(self) -> None:
        note = self.read_note(f"A note for your verdict (Enter: none; {_BACK}):")
        if note is None:
            self.say("the note is unchanged")
            return
        self._note = note or None
        self.say("noted; now decide" if note else "no note")

    def _record(self, case: Case, verdict: str) -> bool:
        """Record a verdict. Return False if the person goes back, or something is wrong."""
        value: float | None = None
        if verdict == LabelVerdict.DISAGREE:
            typed = self.read_note(f"The score that you would have given (Enter: unknown; {_BACK}):")
            if typed is None:
                self.say("nothing was recorded")
                return False
            try:
                value = float(typed) if typed else None
            except ValueError:
                self.say(f"'{typed}' is not a number; nothing was recorded")
                return False
        try:
            self._session.record(case, verdict, value=value, note=self._note)
        except InvalidInput as error:
            self.complain(error)
            return False
        self.say(f"{case.sample}: {verdict}; u takes it back")
        return True

    def undo(self) -> bool:
        """Take back the last label. Return whether that was possible."""
        try:
            case = self._session.undo()
        except InvalidInput as error:
            self.complain(error)
            return False
        self.say(f"took back the label on {case.sample}")
        return True
