"""A labelling session: one person goes through replies or scores of a run, and can take the last label back.

Progress is computed from the labels, so a session continues where the last one ended. Nothing shows what others say.
"""

from collections import deque

from evalspec.errors import InvalidInput, Problem
from evalspec.labels.binding import Case
from evalspec.labels.current import Target
from evalspec.labels.judged_run import CaseFilter, JudgedRun
from evalspec.labels.labelling import add_label, list_own
from evalspec.labels.records import explain_name
from evalspec.model.labels import Label, LabelVerdict


class LabelSession:
    """What a person can label in a run, one after the other. Nothing is kept but the files of the labels."""

    def __init__(self, run: JudgedRun, by: str, wanted: CaseFilter) -> None:
        """`wanted`: which replies or scores.

        Raises:
            InvalidInput: The run stores no texts, the name or the filter is invalid, or a file of labels is damaged.
        """
        run.require_texts()
        fault = explain_name(by)
        if fault is not None:
            raise InvalidInput(Problem(*fault, field="--as"))
        targets = run.list_targets(wanted)
        labelled = list_own(run, by)
        self._run, self.by, self.total = run, by, len(targets)
        self._targets = targets
        self._waiting = deque(target for target in targets if target not in labelled)
        self._before = self.total - len(self._waiting)
        self._skipped = list[Target]()
        self._labels = list[Label]()
        self._last: tuple[Label, Case] | None = None

    @property
    def current(self) -> Case | None:
        """What to label now, with all texts; None at the end."""
        if not self._waiting:
            return None
        dataset, sample, attempt, metric = self._waiting[0]
        return self._run.find_case(dataset, sample, attempt, metric)

    @property
    def position(self) -> int:
        """The number of the current case, from 1, among all that the person has labelled or can label."""
        return self._before + len(self._labels) + 1

    @property
    def remaining(self) -> int:
        """The number of cases that the person has not labelled, skipped ones included."""
        return len(self._waiting) + len(self._skipped)

    @property
    def skipped(self) -> int:
        """The number of skipped cases."""
        return len(self._skipped)

    @property
    def can_undo(self) -> bool:
        """Whether there is a label to take back."""
        return self._last is not None

    def count(self, verdict: LabelVerdict) -> int:
        """Return the number of labels of this session with a verdict."""
        return sum(label.verdict is verdict for label in self._labels)

    def record(self, case: Case, verdict: str, *, value: float | None = None, note: str | None = None) -> Label:
        """Record a label on the current case, and continue with the next one.

        Raises:
            InvalidInput: A value is invalid.
            StoreError: The label cannot be written.
        """
        made = add_label(self._run, case, verdict, self.by, value=value, note=note)
        self._last = made, case
        self._labels.append(made)
        self._waiting.remove(case.target)
        return made

    def start_after(self, target: Target) -> None:
        """Continue with the case after one, so that those before it are skipped. Do nothing if it is not wanted."""
        if target in self._targets:
            later = set(self._targets[self._targets.index(target) + 1 :])
            self._skipped += [one for one in self._waiting if one not in later]
            self._waiting = deque(one for one in self._waiting if one in later)

    def skip(self) -> None:
        """Leave the current case for later."""
        self._skipped.append(self._waiting.popleft())

    def resume_skipped(self) -> None:
        """Continue with the skipped cases."""
        self._waiting.extend(self._skipped)
        self._skipped.clear()

    def undo(self) -> Case:
        """Withdraw the last label. Its case is the current one again.

        Raises:
            InvalidInput: This session has no label to take back.
            StoreError: It cannot be written.
        """
        if self._last is None:
            raise InvalidInput(Problem("there is no label of this session to take back"))
        _, case = self._last
        add_label(self._run, case, LabelVerdict.WITHDRAWN, self.by)
        self._last = None
        self._labels.pop()
        self._waiting.appendleft(case.target)
        return case
