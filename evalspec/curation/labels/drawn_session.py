"""Label drawn replies, in a session or one by one: people give their own scores, without sight of the judge's."""

from collections import deque
from collections.abc import Sequence
from pathlib import Path

from evalspec.base.errors import InvalidInput, Problem
from evalspec.curation.labels.binding import NEEDS_NO_SCORE, Case, LabelMatch
from evalspec.curation.labels.cases import LabelledRun
from evalspec.curation.labels.current import list_blind_scores, list_current
from evalspec.curation.labels.drawing import (
    LabelDesign,
    find_decision,
    find_limits_of_mean,
    list_used_up,
    plan_draws,
    read_populations,
    read_replies,
)
from evalspec.curation.labels.judged_run import JudgedRun
from evalspec.curation.labels.labelling import CHOSEN, add_label, match_labels
from evalspec.curation.labels.opinions import collect_opinions
from evalspec.curation.labels.rating import check_ratable, make_form
from evalspec.curation.labels.session import LabelSession
from evalspec.model import Threshold
from evalspec.model.corrections import Draw, DrawKind
from evalspec.model.labels import Answer, DrawnReply, Label, LabelVerdict, Target
from evalspec.runs.store.run_store import STORE, RunStore
from evalspec.verdict.correction.people import gather

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


def _refuse_mixtures(design: LabelDesign, labels: Sequence[Label]) -> None:
    """Check that those of a design would not make labels useless. `labels`: that count, also of an earlier run.

    Raises:
        InvalidInput: Some are of --until-decided and the design is not, or the other way around.
    """
    kinds = {one.draw.kind for one in labels}
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
        matched = match_labels(run, run.files.read_all())
        counting = [one for one in matched.get(LabelMatch.COUNTS, []) if one.metric == design.metric]
        self._used = {one.target for one in counting if one.used_for is not None}
        self._populations = read_populations(run, design, list_used_up(counting))
        for one in self._populations:
            check_ratable(one.metric, run.find_identity(one.dataset, design.metric))
        self._limits = self._find_limits() if design.kind is DrawKind.SEQUENTIAL else []
        of_other_judges = [one for match in _OTHER_JUDGE for one in matched.get(match, ())]
        drawn = [one for one in list_blind_scores(counting) if one.draw.kind is not DrawKind.CHOSEN]
        unused = [one for one in drawn if one.target not in self._used]
        _refuse_mixtures(design, unused)
        self._blind = {one.target: one for one in unused if by == one.labeller or design.is_new}
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
        left_out = {*self._skipped, *self._labelled, *self._used}
        self._waiting = deque([] if self.stopped else [key for key in found if key not in left_out])
        done = {key for key, _ in self._done}
        self._before = sum(key in self._labelled and key not in done for key in found)

    def _find_decision(self) -> str | None:
        if not self._limits:
            return None
        (population,) = self._populations
        said = collect_opinions(self._run, self._run.files.read_all(), [self._design.metric])
        people = next(one for one in said if one.dataset == population.dataset)
        return find_decision(gather(self._replies, population.metric, people, None), self._limits)

    def _find_limits(self) -> Sequence[Threshold]:
        """Return the thresholds to decide.

        Raises:
            InvalidInput: There is none, several datasets have the metric, or its replies depend on each other.
        """
        if len(self._populations) != 1:
            raise InvalidInput(Problem("several datasets have the metric", "name one", field="--dataset"))
        (population,) = self._populations
        self._replies = read_replies(self._run, population.dataset)
        limits = find_limits_of_mean(self._run, population.dataset, population.metric)
        units = {self._run.find_unit(*target[:2]) for target in population.judged}
        if len(units) < len(population.judged):
            message = "the replies are not independent: several belong to one sample or cluster"
            raise InvalidInput(Problem(message, "use --random N", field="--until-decided"))
        return limits


def label(
    run: str,
    sample: str,
    verdict: str,
    *,
    by: str,
    dataset: str | None = None,
    attempt: int = 1,
    metric: str | None = None,
    value: float | None = None,
    note: str | None = None,
    is_blind: bool = False,
    answers: Sequence[Answer] = (),
    random: int | None = None,
    seed: int = 0,
    store: Path | str = STORE,
) -> Label:
    """Record what a person says about a reply, or about the score of a metric for it, and return the label.

    It replaces the person's earlier label on the same thing.

    Args:
        run: Id of a run, its beginning, a name of the run, or `latest`.
        sample: Id of the sample.
        verdict: `good` or `bad` for a reply; `agree` or `disagree` for a score; `rated` for an own score;
            `withdrawn` takes a label back.
        by: The person.
        dataset: The dataset of the sample; needed if several have one of this id.
        attempt: Number of the attempt, from 1.
        metric: The metric of the score. Default: the reply as a whole.
        value: The score that the person would have given. Only with `disagree` and `rated`, which need it.
        note: Reason or comment.
        is_blind: With `rated`: the person has not seen the score, its reason or its verdicts.
        answers: With `rated`: answers to the questions that the judge answers too, instead of `value`.
        random: With `rated`: the reply is one of so many that `list_drawn` draws with this seed, and the person has not
            seen the score. Only such labels can correct a judge.
        seed: That of the draw.
        store: Folder of the runs.

    Raises:
        InvalidInput: There is no such reply or score, it cannot be read any more or is not in the draw, or a value is
            invalid.
        StoreError: The run is damaged, or the label cannot be written.
    """
    opened = LabelledRun(RunStore(Path(store)), run)
    case = opened.find_case(dataset, sample, attempt, metric, is_rated=verdict in NEEDS_NO_SCORE)
    draw = CHOSEN
    if random is not None:
        _check_drawn(verdict, metric)
        names = () if dataset is None else (dataset,)
        draw = require_draw(opened, by, LabelDesign(metric or "", size=random, seed=seed, datasets=names), case)
    return add_label(
        opened, case, verdict, by, value=value, note=note, is_blind=is_blind or random is not None, draw=draw,
        answers=answers,
    )  # fmt: skip


def _check_drawn(verdict: str, metric: str | None) -> None:
    if metric is None:
        raise InvalidInput(Problem("needs a metric", "add --metric METRIC", field="--random"))
    if verdict != LabelVerdict.RATED:
        message = f"a drawn reply gets a score without sight of the judge's, not '{verdict}'"
        raise InvalidInput(Problem(message, "write rated, with --value", field="--verdict"))


def list_drawn(
    run: str,
    metric: str,
    random: int,
    *,
    by: str,
    seed: int = 0,
    is_stratified: bool = False,
    datasets: Sequence[str] = (),
    store: Path | str = STORE,
) -> tuple[DrawnReply, ...]:
    """Return the replies of a random draw that a person has not labelled, with what is asked about each.

    The draw takes no reply whose label has helped to choose something.

    Args:
        run: Id of a run, its beginning, a name of the run, or `latest`.
        metric: The metric that people score.
        random: Number of replies of each dataset.
        by: The person.
        seed: Larger draws of a seed include its smaller ones.
        is_stratified: After 20 random replies, draw from each score that the judge gave.
        datasets: Only these.
        store: Folder of the runs.

    Raises:
        InvalidInput: There is no such run, dataset or metric, or people cannot score it.
        StoreError: The run is damaged.
    """
    kind = DrawKind.STRATIFIED if is_stratified else DrawKind.RANDOM
    design = LabelDesign(metric, kind, random, seed, tuple(datasets))
    session = DrawnSession(LabelledRun(RunStore(Path(store)), run), by, design)
    found = []
    while (case := session.open()) is not None:
        found.append(_describe_drawn(case))
        session.skip()
    return tuple(found)


def _describe_drawn(case: Case) -> DrawnReply:
    form, exchange = make_form(case), case.exchange
    return DrawnReply(
        dataset=case.dataset,
        sample=case.sample,
        attempt=case.attempt,
        user_input=exchange.sample.user_input,
        response=exchange.response,
        contexts=exchange.retrieved_contexts,
        references=exchange.sample.references,
        asked=form.asked,
        about=form.texts,
        rubric=form.rubric,
        grades=form.grades,
    )
