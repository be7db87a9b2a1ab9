"""A labelling session: one person goes through replies or scores of a run, and can take the last label back.

Nothing shows what others say.
"""

from collections.abc import Mapping, Sequence

from evalspec.base.errors import InvalidInput, Problem
from evalspec.curation.case_queue import CaseQueue
from evalspec.curation.labels.binding import Case
from evalspec.curation.labels.judged_run import CaseFilter, JudgedRun
from evalspec.curation.labels.labelling import add_label, list_own
from evalspec.curation.labels.records import explain_name
from evalspec.model.labels import OF_REPLIES, OF_SHOWN_SCORES, Label, LabelVerdict, Target

VERDICT_KEYS = {LabelVerdict.GOOD: "g", LabelVerdict.BAD: "b", LabelVerdict.AGREE: "a", LabelVerdict.DISAGREE: "d"}
"""The key of each verdict on the terminal and on the page."""


class LabelSession(CaseQueue[Target, Case, tuple[Label, Case]]):
    """What a person can label in a run, one after the other."""

    noun, past = "label", "labelled"
    stopped: str | None = None
    """Why no more is asked, if that is not because all is labelled."""

    def __init__(self, run: JudgedRun, by: str, wanted: CaseFilter) -> None:
        """`wanted`: which replies or scores.

        Raises:
            InvalidInput: The run stores no texts, the name or the filter is invalid, or a file of labels is damaged.
        """
        run.require_texts()
        fault = explain_name(by)
        if fault is not None:
            raise InvalidInput(Problem(*fault, field="--as"))
        self._run, self.by = run, by
        self._verdicts: Sequence[LabelVerdict] = OF_SHOWN_SCORES if wanted.metric else OF_REPLIES
        super().__init__(run.list_targets(wanted), list_own(run, by))

    def _read(self, key: Target) -> Case:
        return self._run.find_case(*key)

    def count_decisions(self) -> Mapping[str, int]:
        """Return the number of labels of this session by verdict."""
        verdicts = [label.verdict for _, (label, _) in self._done]
        return {str(verdict): verdicts.count(verdict) for verdict in self._verdicts}

    def record(self, case: Case, verdict: str, *, value: float | None = None, note: str | None = None) -> Label:
        """Record a label on the current case, and continue with the next one.

        Raises:
            InvalidInput: A value is invalid.
            StoreError: The label cannot be written.
        """
        made = add_label(self._run, case, verdict, self.by, value=value, note=note)
        self._add(case.target, (made, case))
        return made

    def _withdraw(self, done: tuple[Label, Case]) -> Case:
        add_label(self._run, done[1], LabelVerdict.WITHDRAWN, self.by)
        return done[1]
