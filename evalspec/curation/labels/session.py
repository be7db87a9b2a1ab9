"""A labelling session: one person goes through replies or scores of a run, and can take the last label back.

Progress is computed from the labels, so a session continues where the last one ended. Nothing shows what others say.
"""

from collections import deque

from evalspec.base.errors import InvalidInput, Problem
from evalspec.curation.labels.binding import Case
from evalspec.curation.labels.current import Target
from evalspec.curation.labels.judged_run import CaseFilter, JudgedRun
from evalspec.curation.labels.labelling import add_label, list_own
from evalspec.curation.labels.records import explain_name
from evalspec.curation.work_queue import WorkQueue
from evalspec.model.labels import Label, LabelVerdict


class LabelSession(WorkQueue[Target, tuple[Label, Case]]):
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
        self._run, self.by, self._targets = run, by, run.list_targets(wanted)
        labelled = list_own(run, by)
        waiting = [target for target in self._targets if target not in labelled]
        super().__init__(waiting, len(self._targets) - len(waiting))

    @property
    def current(self) -> Case | None:
        """What to label now, with all texts; None at the end."""
        if not self._waiting:
            return None
        dataset, sample, attempt, metric = self._waiting[0]
        return self._run.find_case(dataset, sample, attempt, metric)

    def count(self, verdict: LabelVerdict) -> int:
        """Return the number of labels of this session with a verdict."""
        return sum(label.verdict is verdict for label, _ in self._done)

    def record(self, case: Case, verdict: str, *, value: float | None = None, note: str | None = None) -> Label:
        """Record a label on the current case, and continue with the next one.

        Raises:
            InvalidInput: A value is invalid.
            StoreError: The label cannot be written.
        """
        made = add_label(self._run, case, verdict, self.by, value=value, note=note)
        self._add(case.target, (made, case))
        return made

    def start_after(self, target: Target) -> None:
        """Continue with the case after one, so that those before it are skipped. Do nothing if it is not wanted."""
        if target in self._targets:
            later = set(self._targets[self._targets.index(target) + 1 :])
            self._skipped += [one for one in self._waiting if one not in later]
            self._waiting = deque(one for one in self._waiting if one in later)

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
        self._take_back(case.target)
        return case
