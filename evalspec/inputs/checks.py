"""The checks of a sample, as a line of a dataset spells them: `{"name": "contains", "value": "Paris"}`.

Planning looks up the names and the parameters: metrics are defined in `scoring/`.
"""

from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, StrictBool, StrictStr

from evalspec.inputs.manifest.fields import Number
from evalspec.model import Check


class JsonlCheck(BaseModel):
    """A check of the reply: a metric without a judge, with its parameters as further keys."""

    model_config = ConfigDict(extra="allow", defer_build=True)
    name: Annotated[StrictStr, Field(min_length=1)] = Field(description="The name of the metric, such as contains.")
    weight: Annotated[Number, Field(ge=0)] = Field(
        1.0, description="How much the check counts in `checks`; with 0 it is only shown."
    )
    threshold: Number | None = Field(
        None,
        description="The lowest value that is right, or the highest if lower is better. Default: the best value that "
        "the metric has.",
    )
    negate: StrictBool = Field(False, description="Whether the check is right exactly if it would be wrong.")

    def to_check(self) -> Check:
        """Return the check as part of a sample."""
        return Check(self.name, self.model_extra or {}, self.weight, self.threshold, self.negate)


def render_check(check: Check) -> dict[str, Any]:
    """Return a check as a line has it, without defaults."""
    others = {"weight": check.weight, "threshold": check.threshold, "negate": check.negate}
    usual = {"weight": 1.0, "threshold": None, "negate": False}
    return {"name": check.name, **check.parameters} | {key: others[key] for key in others if others[key] != usual[key]}
