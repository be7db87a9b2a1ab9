"""The section of a manifest about the world that an agent acts on: how to reset it and how to see its state."""

import re
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, StrictBool, StrictStr, field_validator, model_validator

from evalspec.inputs.manifest.fields import Extensible, ManifestModel, ModuleObject, Name, Seconds, check_query

SESSION = "{{session}}"
_DURATION = re.compile(r"(\d+(?:\.\d+)?)\s*(ms|s|m)?")
_UNITS = {"ms": 0.001, "s": 1.0, "m": 60.0, None: 1.0}


def read_duration(value: Any) -> Any:
    """Return seconds: a number, or a text such as 5s or 500ms. What is no text is returned as it is.

    Raises:
        ValueError: the text is no time.
    """
    if not isinstance(value, str):
        return value
    found = _DURATION.fullmatch(value)
    if found is None:
        raise ValueError(f"within is a time, and '{value}' is none; write 5s, 500ms or a number of seconds")
    return float(found[1]) * _UNITS[found[2]]


Duration = Annotated[float, Field(strict=True, ge=0, allow_inf_nan=False), BeforeValidator(read_duration)]


class WorldCall(ManifestModel):
    """A request to the world, or a function next to the manifest."""

    url: Name | None = Field(None, description="Its URL, in which {{session}} is the id of the attempt.")
    method: Literal["GET", "POST", "PUT", "DELETE"] | None = Field(
        None, description="Default: GET for `state`, POST for `reset`."
    )
    headers: dict[str, StrictStr] = Field(default_factory=dict, description="HTTP headers; may contain references.")
    body: Any = Field(None, description="The body as JSON, in which {{session}} and {{id}} are replaced.")
    python: ModuleObject | None = Field(
        None, description="A function in place of the URL, module:function; it gets the id of the attempt."
    )
    timeout_seconds: Seconds = Field(30.0, description="Seconds for one call.")

    @model_validator(mode="before")
    @classmethod
    def _from_url(cls, value: Any) -> Any:
        return {"url": value} if isinstance(value, str) else value

    @model_validator(mode="after")
    def _one_way(self) -> "WorldCall":
        if (self.url is None) == (self.python is None):
            raise ValueError("a call of the environment has either a url or python; write one of them")
        return self

    @property
    def carries_session(self) -> bool:
        """Whether the call is about one attempt. A function always gets its id."""
        return self.python is not None or SESSION in f"{self.url} {self.body} {self.headers}"


class EnvironmentConfig(Extensible):
    """The world that the agent acts on."""

    state: WorldCall = Field(description="How to see the world: a URL that gives JSON, or a function that returns it.")
    reset: WorldCall | None = Field(
        None, description="How to bring the world to its beginning, before each attempt. Default: nothing is reset."
    )
    isolated: StrictBool = Field(
        False,
        description="Whether each attempt has a world of its own, named by {{session}}. Otherwise attempts run one at "
        "a time.",
    )
    within: Duration = Field(0.0, description="How long the world may take to reach the expected state, such as 5s.")
    nothing_else: StrictBool = Field(
        False, description="Whether every path that a sample does not name has to be as before the attempt."
    )
    ignore: list[Name] = Field([], description="JSONPath queries of what may change anyway, such as $.updatedAt.")

    @field_validator("ignore")
    @classmethod
    def _are_queries(cls, queries: list[str]) -> list[str]:
        return [check_query(query) for query in queries]

    @model_validator(mode="after")
    def _can_be_told_apart(self) -> "EnvironmentConfig":
        calls = [("state", self.state), *([("reset", self.reset)] if self.reset else [])]
        blind = [name for name, call in calls if self.isolated and not call.carries_session]
        if blind:
            raise ValueError(f"isolated needs {SESSION} in {' and '.join(blind)}; add it, or remove isolated")
        return self
