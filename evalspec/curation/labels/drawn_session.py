"""A labelling session over drawn replies: a person gives scores of their own, without sight of the judge's."""

from collections import deque
from collections.abc import Sequence

from evalspec.base.errors import InvalidInput, Problem
from evalspec.curation.labels.binding import Case, LabelMatch
from evalspec.curation.labels.current import list_blind_scores, list_current
from evalspec.curation.labels.drawing import (
    LabelDesign,
    find_decision,
    find_limits_of_mean,
    plan_draws,
    read_populations,
)
from evalspec.curation.labels.judged_run import JudgedRun
from evalspec.curation.labels.labelling import add_label, match_labels
from evalspec.curation.labels.rating import check_ratable
from evalspec.curation.labels.session import LabelSession
from evalspec.model import Threshold
from evalspec.model.corrections import Draw, DrawKind
from evalspec.model.labels import Answer, Label, LabelVerdict, Target

_OTHER_JUDGE = (LabelMatch.REUSABLE, LabelMatch.NO_VALUE)
"""Labels on scores of another judge for the same replies. Their people have seen a score, so none would be blind."""


def require_draw(run: JudgedRun, by: str, design: LabelDesign, case: Case) -> Draw:
    """Return how the reply of a case was drawn for a person.

    Raises:
        InvalidInput: It was not, or people cannot score it by the metric.
    """
    draw = DrawnSession(run, by, design).find_draw(case.target)
    if draw is None:
        raise InvalidInput(Problem(f"'{case.sample}' is not in the draw", "score the replies that are drawn"))
    return draw


def _refuse_mixtures(run: str, design: LabelDesign, labels: Sequence[Label]) -> None:
    """Check that a run has no labels which those of a design would make useless.

    Raises:
        InvalidInput: Some are of --until-decided and the design is not, or the other way around.
    """
    given = (one for one in list_blind_scores(labels) if one.run == run and one.metric == design.metric)
    kinds = {one.draw.kind for one in given if one.used_for is None} - {DrawKind.CHOSEN}
    if {kind is DrawKind.SEQUENTIAL for kind in kinds} != {design.kind is not DrawKind.SEQUENTIAL}:
        return
    has, fix = "another draw", "use --random or --new"
    if DrawKind.SEQUENTIAL in kinds:
        has, fix = "--until-decided", "continue with it"
    raise InvalidInput(Problem(f"the run has labels of {has}: mixed with others, they correct nothing", fix))


class DrawnSession(LabelSession):
    """The drawn replies of a run, one after the other. After each label, the plan of what to ask next is made again."""

    def __init__(self, run: JudgedRun, by: str, design: LabelDesign) -> None:
        """`design`: how replies are drawn.

        Raises:
            InvalidInput: The run stores no texts, the name is invalid, people cannot score the metric, a file of labels
                is damaged, no threshold can be decided, or the run has labels that cannot be mixed with these.
        """
        super().__init__(run, by, design.wanted)
        self._design, self._verdicts = design, (LabelVerdict.RATED,)
        self._populations = read_populations(run, design)
        for one in self._populations:
            check_ratable(one.metric, run.find_identity(one.dataset, design.metric))
        self._limits = self._find_limits() if design.kind is DrawKind.SEQUENTIAL else []
        matched = match_labels(run, run.files.read_all())
        counting = matched.get(LabelMatch.COUNTS, [])
        of_other_judges = [one for match in _OTHER_JUDGE for one in matched.get(match, ())]
        _refuse_mixtures(run.id, design, counting)
        blind = [one for one in list_blind_scores(counting) if by == one.labeller or design.is_new]
        self._blind = {one.target: one for one in blind}
        seen = list_current([*counting, *of_other_judges])
        self._labelled = {one.target for one in seen if by == one.labeller} | {*self._blind}
        self._draws: dict[Target, Draw] = {}
        self._plan()

    def record(
        self,
        case: Case,
        verdict: str,
        *,
        value: float | None = None,
        note: str | None = None,
        answers: Sequence[Answer] = (),
    ) -> Label:
        """Record the person's score, and continue with the next reply. See `LabelSession.record`."""
        draw = self._draws[case.target]
        made = add_label(
            self._run, case, verdict, self.by, value=value, note=note, is_blind=True, draw=draw, answers=answers
        )
        self._add(case.target, (made, case))
        self._labelled.add(case.target)
        self._blind |= {case.target: made} if made.is_blind else {}
        self._plan()
        return made

    def find_draw(self, target: Target) -> Draw | None:
        """Return how a reply was drawn; None if it was not."""
        return self._draws.get(target)

    @property
    def is_undecided(self) -> bool:
        """Whether a threshold is to be decided, and is not yet."""
        return bool(self._limits) and self.stopped is None

    def _read(self, key: Target) -> Case:
        return self._run.find_case(*key, is_rated=True)

    def _withdraw(self, done: tuple[Label, Case]) -> Case:
        case = super()._withdraw(done)
        self._labelled.discard(case.target)
        self._blind.pop(case.target, None)
        self.stopped = None
        return case

    def _plan(self) -> None:
        """Draw again with the labels so far. Skipped and labelled replies are left out."""
        found: dict[Target, Draw] = {}
        for population in self._populations:
            found |= plan_draws(population, self._design, self._blind)
        self.stopped = self._find_decision()
        self._draws |= found
        self._keys = list(found)
        left_out = {*self._skipped, *self._labelled}
        self._waiting = deque([] if self.stopped else [key for key in found if key not in left_out])
        done = {key for key, _ in self._done}
        self._before = sum(key in self._labelled and key not in done for key in found)

    def _find_decision(self) -> str | None:
        if not self._limits:
            return None
        (population,) = self._populations
        labels = [self._blind[target] for target in population.judged if target in self._blind]
        counting = [one for one in labels if one.draw.kind is DrawKind.SEQUENTIAL and one.used_for is None]
        return find_decision(population, self._limits, counting)

    def _find_limits(self) -> Sequence[Threshold]:
        """Return the thresholds to decide.

        Raises:
            InvalidInput: There is none, several datasets have the metric, or its replies depend on each other.
        """
        if len(self._populations) != 1:
            raise InvalidInput(Problem("several datasets have the metric", "name one", field="--dataset"))
        (population,) = self._populations
        limits = find_limits_of_mean(self._run, population.dataset, population.metric)
        units = {self._run.find_unit(*target[:2]) for target in population.judged}
        if len(units) < len(population.judged):
            message = "the replies are not independent: several belong to one sample or cluster"
            raise InvalidInput(Problem(message, "use --random N", field="--until-decided"))
        return limits
