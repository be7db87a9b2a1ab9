"""Labels that people give in several sittings, over several runs: who draws what, and what is estimated from it."""

import random
from dataclasses import dataclass, field

from evalspec.curation.labels.drawing import PILOT, LabelDesign, Population, plan_draws
from evalspec.curation.labels.opinions import compute_shares
from evalspec.inputs.datasets.selection import rank_replies
from evalspec.model import Direction
from evalspec.model.corrections import DrawKind
from evalspec.model.labels import Label, LabelVerdict
from evalspec.verdict.correction.estimates import Corrected, Opinions, correct
from evalspec.verdict.outline import MetricOutline

METRIC = MetricOutline("m", "mean", Direction.HIGHER, bounds=(0.0, 1.0), judged=True)


@dataclass
class Stages:
    """Replies to `size` questions in runs, with the scores of a judge and of people, and labels by question.

    `rate`: how many replies people find good. `error`: how often a judge errs.
    """

    size: int
    seed: int
    rate: float = 0.7
    error: float = 0.15
    labels: dict[str, Label] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.dice = random.Random(self.seed)
        self.runs: list[dict[str, tuple[int, float]]] = []
        self.people: dict[tuple[str, int], float] = {}
        self.versions = dict.fromkeys(map(str, range(self.size)), 0)
        self.judge()

    def judge(self, changed: int = 0) -> None:
        """Make a run: some replies change, and another judge scores all."""
        for id in self.dice.sample(sorted(self.versions), changed):
            self.versions[id] += 1
            self.labels.pop(id, None)
        for reply in self.versions.items():
            self.people.setdefault(reply, float(self.dice.random() < self.rate))
        self.runs.append(
            {
                id: (version, abs(self.people[id, version] - (self.dice.random() < self.error)))
                for id, version in self.versions.items()
            }
        )

    def sit(self, kind: DrawKind, count: int, *, seed: int = 0, is_new: bool = False) -> None:
        """Label `count` replies, or all that are drawn."""
        run = self.runs[-1]
        ids = [id for id, _ in rank_replies(((id, 1) for id in run), seed)]
        population = Population("d", METRIC, {("d", id, 1, "m"): run[id][1] for id in ids})
        design = LabelDesign("m", kind, 1 if is_new else count, seed, is_new=is_new)
        drawn = None
        for done in range(count):
            given = {one.target: one for one in self.labels.values()}
            if drawn is None or is_new or (kind is DrawKind.STRATIFIED and done <= PILOT):
                drawn = plan_draws(population, design, given)
            target = next((one for one in drawn if one not in given), None)
            if target is None:
                return
            self.labels[target[1]] = Label(
                run=str(len(self.runs) - 1), dataset="d", sample=target[1], metric="m", verdict=LabelVerdict.RATED,
                labeller="ada", at="2026-01-01T00:00:00Z", is_blind=True, draw=drawn[target],
                value=self.people[target[1], self.versions[target[1]]],
            )  # fmt: skip

    @property
    def mean(self) -> float:
        """What people would say about all replies of the last run."""
        return sum(self.people[reply] for reply in self.versions.items()) / self.size

    def estimate(self) -> Corrected | None:
        labelled = {int(one.run) for one in self.labels.values()}
        numbers = [len(self.runs) - 1, *sorted(labelled - {len(self.runs) - 1})]
        frames = [self._frame(number) for number in numbers]
        shares = compute_shares(frames, [(id, 1) for id in self.labels])
        unchanged = {place for frame in frames[1:] for place in frame}
        return correct(
            Opinions(
                judged=[value for _, value in self.runs[-1].values()],
                people=[self.labels[id].value if id in self.labels else None for id in self.versions],
                weights=[1 / shares.get((id, 1), 1.0) for id in self.versions],
                groups=[(id, 1) in unchanged for id in self.versions],
            )
        )

    def _frame(self, number: int) -> dict[tuple[str, int], int]:
        within = any(int(one.run) == number and one.draw.kind is DrawKind.STRATIFIED for one in self.labels.values())
        run = self.runs[number]
        return {(id, 1): int(run[id][1]) if within else 0 for id in run if run[id][0] == self.versions[id]}
