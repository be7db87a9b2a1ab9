"""The section of a manifest about the gate, `spec.evaluation.ciGate`."""

import re
from typing import Any, NamedTuple

from pydantic import Field, StrictBool, field_validator, model_validator
from pydantic.alias_generators import to_camel

from evalspec.inputs.manifest.fields import Confidence, Count, Drops, ManifestModel, Name, Positive, Share
from evalspec.model.corrections import JudgeCorrection
from evalspec.model.verdicts import RegressionRule

SERVER = "server:"
"""How the name of a baseline begins that a server has."""
LAST_GREEN, BRANCH = "last-green/", "branch/"
LABEL = re.compile(r"[A-Za-z0-9][\w.-]{0,99}", re.ASCII)


class ServerBaseline(NamedTuple):
    """A baseline of a server. `name`: as promoted. `branch`: the newest run of this branch is used instead, with what
    was promoted as its anchor. `is_green`: the newest run that passed.
    """

    name: str
    branch: str | None = None
    is_green: bool = False


class JudgePolicy(ManifestModel):
    """How the gate treats metrics that a judge scores."""

    correct: JudgeCorrection = Field(
        JudgeCorrection.AUTO,
        description="auto: limits apply to what people would say where their labels allow an estimate, else to the "
        "judge's opinion, and the reports say so. require: without such an estimate, a limit is INCOMPLETE. off: "
        "labels are not used.",
    )
    labels: Name | None = Field(
        None,
        description="File of labels, as `evalspec labels export` writes it, beside those of the folder of runs. "
        "Default: none.",
    )
    min_agreement: Share | None = Field(
        None,
        description="What the lower end of the interval of kappa between judge and people must reach; below it, limits "
        "on the judged metric are INCOMPLETE. Default: not checked.",
    )

    controls: StrictBool = Field(
        True,
        description="Whether the judge scores a few known-good and known-bad cases; where it cannot distinguish them, "
        "limits on the metric are INCOMPLETE.",
    )

    calibration: Name | None = Field(
        None,
        description="A calibration of `evalspec judge calibrate --as NAME --anchors 50`. Each judged run asks the "
        "judge again about some of its replies. If the judge has changed, comparisons with earlier runs are refused. "
        "Default: none.",
    )
    anchor_share: Share = Field(
        0.1, description="How much of the grades of a run the replies of the calibration may add, 0 to 1."
    )

    @model_validator(mode="before")
    @classmethod
    def _from_word(cls, value: Any) -> Any:
        return {"correct": value} if isinstance(value, str | bool) else value

    @field_validator("correct", mode="before")
    @classmethod
    def _from_yaml(cls, value: Any) -> Any:
        """Return `off` where YAML has read it as false."""
        return JudgeCorrection.OFF if value is False else value

    @model_validator(mode="after")
    def _off_uses_nothing(self) -> "JudgePolicy":
        if self.correct is JudgeCorrection.OFF and (self.labels or self.min_agreement is not None):
            raise ValueError("labels and minAgreement mean nothing with correct: off; remove them, or write auto")
        return self


class CiGate(ManifestModel):
    """The gate: which results decide the exit code, and how much must be measured for PASS."""

    enabled: StrictBool = Field(True, description="Whether the verdict decides the exit code.")
    min_coverage: Share = Field(
        1.0,
        description="Share of the samples to which a metric applies that must be scored; with fewer, its limits "
        "cannot pass.",
    )
    max_error_rate: Share = Field(
        0.0,
        description="Share of a dataset's samples, or attempts with --repeat, that may lack a usable reply; with "
        "more, the verdict cannot be PASS.",
    )
    max_not_applicable: Share = Field(
        0.1,
        description="Share of a limit's scores that may be not applicable because of the reply or the judge. If above "
        "0, those of one sample are always accepted.",
    )
    min_samples: Positive = Field(1, description="Number of scores that each limit needs to pass or fail.")
    min_pass_rate: Share | None = Field(
        None, description="Share of its attempts in which each sample must pass (see --repeat). Default: not checked."
    )
    confidence: Confidence | None = Field(
        None,
        description="Compare the worse end of the interval at this confidence, such as 0.95, with each limit. "
        "Default: compare only the value.",
    )
    baseline: Name | None = Field(
        None,
        description="What the run must not be worse than: the name of a promoted baseline, or its file. Of the server "
        "in EVALSPEC_TO: server:NAME is what was promoted there, server:last-green/BRANCH the branch's newest run with "
        "PASS, and server:branch/BRANCH its newest run. Default: no comparison.",
    )
    anchor: Name | None = Field(
        None,
        description="Name of a baseline of the server, which the newest run of a branch must not be worse than "
        "either, because each run may lose a little within noise.",
    )
    baseline_max_age: Positive | None = Field(
        None,
        description="How old a copy of the server's baseline may be, in days, if the server does not answer. With an "
        "older one, the verdict cannot be PASS. Default: 14.",
    )
    max_drop: Drops = Field(
        0.0,
        description="How much worse than the baseline a metric may be: one number for all means of scores from −1 to "
        "1, or one for each metric that is compared.",
    )
    regression: RegressionRule = Field(
        RegressionRule.DROP,
        description="What the comparison with the baseline requires. drop: no significant drop of more than maxDrop. "
        "notWorse: data that exclude such a drop, else the verdict is INCOMPLETE.",
    )
    alpha: Confidence | None = Field(
        0.05, description="Significance level: a drop counts if its p-value is below this; null: every drop counts."
    )
    new_failures: Count | None = Field(
        None,
        description="Number of samples of each dataset that may fail, beyond noise, although they passed in the "
        "baseline; null: any number.",
    )

    judge: JudgePolicy = Field(
        JudgePolicy.model_construct(), description="How metrics that a judge scores are gated. A word is `correct`."
    )
    fresh: StrictBool = Field(
        False, description="Whether the judge is asked for every score, although its cache may have it (as --fresh)."
    )
    max_removed: Share = Field(
        0.0,
        description="Share of the baseline's samples that may be gone from a dataset's file, or edited. With more, "
        "each counts at its worst: where that would change an outcome, it is INCOMPLETE. `evalspec compare` refuses "
        "such runs if this is stated, or with --fail-on.",
    )

    @model_validator(mode="before")
    @classmethod
    def _from_bool(cls, value: Any) -> Any:
        if isinstance(value, str):
            raise ValueError(f"'{value}' is text; write true or false without quotes, or a mapping with the rules")  # noqa: TRY004
        return {"enabled": value} if isinstance(value, bool) else value

    @model_validator(mode="after")
    def _drops_are_from_something(self) -> "CiGate":
        named = ("max_drop", "alpha", "new_failures", "regression")
        idle = [to_camel(name) for name in named if name in self.model_fields_set]
        if idle and self.baseline is None:
            raise ValueError(f"{' and '.join(idle)} cannot be used without a baseline; add one, as in baseline: main")
        return self

    @property
    def server_baseline(self) -> ServerBaseline | None:
        """The baseline that a server has; None: it is a file, or there is none."""
        if self.baseline is None or not self.baseline.startswith(SERVER):
            return None
        name = self.baseline.removeprefix(SERVER)
        for start in (LAST_GREEN, BRANCH):
            if name.startswith(start):
                return ServerBaseline(self.anchor or "", name.removeprefix(start), start == LAST_GREEN)
        return ServerBaseline(name)

    @model_validator(mode="after")
    def _server_has_an_anchor(self) -> "CiGate":
        found = self.server_baseline
        of_branch = found is not None and found.branch is not None
        if self.anchor is not None and not of_branch:
            raise ValueError("anchor is only for baseline: server:last-green/BRANCH or server:branch/BRANCH")
        if self.baseline_max_age is not None and found is None:
            raise ValueError("baselineMaxAge is only for a baseline of a server, as in baseline: server:main")
        if found is None:
            return self
        if of_branch and self.anchor is None:
            why = "because each run may lose a little within noise"
            raise ValueError(f"baseline: {self.baseline} needs an anchor, {why}; add one, as in anchor: main")
        if found.branch == "" or not LABEL.fullmatch(found.name):
            forms = "server:NAME, server:last-green/BRANCH or server:branch/BRANCH"
            raise ValueError(f"baseline of a server: write {forms}, with letters, digits and ._- in names")
        return self

    @model_validator(mode="after")
    def _not_worse_has_a_margin(self) -> "CiGate":
        if self.regression is not RegressionRule.NOT_WORSE:
            return self
        drops = self.max_drop.values() if isinstance(self.max_drop, dict) else [self.max_drop]
        if not drops or min(drops) <= 0:
            raise ValueError("regression: notWorse needs a maxDrop above 0; add one, as in maxDrop: 0.02")
        if self.alpha is None:
            raise ValueError("regression: notWorse needs alpha; remove alpha: null")
        return self
