"""A panel: several judges score the same reply, and their scores become one."""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from statistics import fmean, median

from msgspec import Struct

from evalspec.base.plural import counted
from evalspec.inputs.manifest.judge_schema import JudgeConfig
from evalspec.model import Cause, Score, ScoreStatus
from evalspec.model.scores import WITHOUT


class Panel(Struct, frozen=True):
    """The judges of a run, more than one. `names`: their models. `may_miss`: whether most of them are enough."""

    names: tuple[str, ...]
    combine: str
    may_miss: bool

    def join(self, scores: Sequence[Score]) -> Score:
        """Return the score of the panel from those of its judges, in their order.

        Its evidence has what each judge said. Without a value of a judge, the score has none either, unless the panel
        may miss some and more than half of the judges have one.
        """
        stopped = next((one for one in scores if one.cause is Cause.STOPPED), None)
        if stopped is not None:
            return stopped
        said = [
            {"judge": name, "value": one.value, "reason": one.reason, "evidence": one.evidence_or_none}
            for name, one in zip(self.names, scores, strict=True)
        ]
        values = tuple(one.value for one in scores if one.value is not None)
        missing = [(name, one) for name, one in zip(self.names, scores, strict=True) if one.value is None]
        if missing and not (self.may_miss and 2 * len(values) > len(scores)):
            # A judge that failed may have had a value, so the metric is undefined only where all say so.
            name, worst = next(((name, one) for name, one in missing if one.status is ScoreStatus.FAILED), missing[0])
            status = ScoreStatus.FAILED if values else worst.status
            return Score(status, None, f"{name}: {worst.reason}", (), worst.cause, {"panel": said})
        value = _find_majority(values, len(scores)) if self.combine == _MAJORITY else _MEANS[self.combine](values)
        left_out = f"{WITHOUT}{', '.join(name for name, _ in missing)}" if missing else ""
        if value is None:
            reason = f"no value has a majority: {_render(sorted(values))}{left_out}"
            return Score(ScoreStatus.FAILED, None, reason, values, Cause.OTHER, {"panel": said})
        reason = f"{self.combine} of {counted(len(values), 'judge')}: {_render(values)}{left_out}"
        return Score.scored(value, reason, {"panel": said}, values)


def form_panel(judge: JudgeConfig | None) -> Panel | None:
    """Return the panel that a judge is a member of; None if it is alone."""
    if judge is None or not judge.panel:
        return None
    return Panel(tuple(one.model for one in judge.members), judge.combine, judge.missing == "ignore")


def _render(values: Sequence[float]) -> str:
    return ", ".join(f"{value:g}" for value in values)


def _find_majority(values: Sequence[float], judges: int) -> float | None:
    """Return the value that more than half of the judges have; None if there is none."""
    value, count = Counter(values).most_common(1)[0]
    return value if 2 * count > judges else None


_MAJORITY = "majority"
_MEANS: Mapping[str, Callable[[Sequence[float]], float]] = {"mean": fmean, "median": median}
