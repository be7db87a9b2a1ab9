"""The section of a manifest about the gate, `spec.evaluation.ciGate`."""

from typing import Any, Literal

from pydantic import Field, StrictBool, model_validator
from pydantic.alias_generators import to_camel

from evalspec.manifest.fields import Confidence, Count, Drops, Name, Positive, Share, Strict


class CiGate(Strict):
    """The gate: which results decide the exit code, and how much must be measured for PASS."""

    enabled: StrictBool = True
    min_coverage: Share = 1.0
    max_error_rate: Share = 0.0
    max_not_applicable: Share = Field(
        0.1,
        description="Share of a limit's scores that may be not applicable because of the reply or the judge. If above "
        "0, those of one sample are always accepted.",
    )
    min_samples: Positive = 1
    min_pass_rate: Share | None = Field(
        None, description="Share of attempts in which each sample must pass (see --repeat)."
    )
    confidence: Confidence | None = Field(
        None, description="Compare the worse end of the interval at this confidence with each limit, not the value."
    )
    baseline: Name | None = Field(None, description="The baseline to compare the run with: a promoted name, or a file.")
    max_drop: Drops = Field(
        0.0,
        description="How much worse than the baseline a metric may be: one number for all metrics from 0 to 1, or one "
        "per metric.",
    )
    regression: Literal["drop", "notWorse"] = Field(
        "drop",
        description="What fails the comparison with the baseline. drop: a significant drop of more than maxDrop. "
        "notWorse: any result that does not exclude a drop of maxDrop.",
    )
    alpha: Confidence | None = Field(
        0.05, description="Significance level: a drop counts if its p-value is below this; null: every drop counts."
    )
    new_failures: Count | None = Field(
        None, description="Number of samples that may fail although they passed in the baseline; null: any number."
    )

    @model_validator(mode="before")
    @classmethod
    def _from_bool(cls, value: Any) -> Any:
        return {"enabled": value} if isinstance(value, bool) else value

    @model_validator(mode="after")
    def _drops_are_from_something(self) -> "CiGate":
        named = ("max_drop", "alpha", "new_failures", "regression")
        idle = [to_camel(name) for name in named if name in self.model_fields_set]
        if idle and self.baseline is None:
            raise ValueError(f"{' and '.join(idle)} cannot be used without a baseline; add one, as in baseline: main")
        return self

    @model_validator(mode="after")
    def _not_worse_has_a_margin(self) -> "CiGate":
        if self.regression != "notWorse":
            return self
        drops = self.max_drop.values() if isinstance(self.max_drop, dict) else [self.max_drop]
        if not drops or min(drops) <= 0:
            raise ValueError("regression: notWorse needs a maxDrop above 0; add one, as in maxDrop: 0.02")
        if self.alpha is None:
            raise ValueError("regression: notWorse needs alpha; remove alpha: null")
        return self
