"""Users whom a model plays, as a line of a dataset has them: a goal in place of messages."""

from typing import Annotated, Any

from msgspec import to_builtins
from pydantic import BaseModel, ConfigDict, Field, StrictInt, StrictStr, field_validator

from evalspec.model import SimulatedUser

Text = Annotated[StrictStr, Field(min_length=1)]


class JsonlUser(BaseModel):
    """A user that a model plays."""

    model_config = ConfigDict(extra="forbid", defer_build=True)
    goal: Text = Field(description="What the user wants.")
    facts: list[Text] = Field(default_factory=list, description="What the user knows and may say.")
    persona: Text | None = Field(None, description="Who the user is, and how the user speaks.")
    secrets: list[Text] = Field(
        default_factory=list,
        description="What the user knows and must not say. A message that contains one voids the attempt.",
    )
    max_turns: Annotated[StrictInt, Field(ge=1)] = Field(8, alias="maxTurns", description="Most messages of the user.")
    stop_when: Text | None = Field(
        None, alias="stopWhen", description="When the user ends the conversation, besides the goal being reached."
    )

    @field_validator("secrets")
    @classmethod
    def _can_be_found(cls, secrets: list[str]) -> list[str]:
        blank = next((one for one in secrets if not any(map(str.isalnum, one))), None)
        if blank is not None:
            raise ValueError(f"'{blank}' has no letter and no digit, so it cannot be found in a message")
        return secrets

    def to_user(self) -> SimulatedUser:
        """Return the user as a sample has it."""
        facts, secrets = tuple(self.facts), tuple(self.secrets)
        return SimulatedUser(self.goal, facts, self.persona, secrets, self.max_turns, self.stop_when)


def render_user(user: SimulatedUser) -> dict[str, Any]:
    """Return a user as a line has it."""
    names = {"max_turns": "maxTurns", "stop_when": "stopWhen"}
    return {names.get(key, key): value for key, value in to_builtins(user).items()}
