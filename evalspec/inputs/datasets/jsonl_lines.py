"""The lines of the native format: the strict record, the fast one for common lines, and how a sample is written."""

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Literal

from msgspec import Meta, MsgspecError, Struct, to_builtins
from msgspec.json import Decoder, Encoder
from pydantic import (
    BaseModel,
    ConfigDict,
    Discriminator,
    Field,
    StrictBool,
    StrictInt,
    StrictStr,
    Tag,
    field_validator,
    model_validator,
)

from evalspec.base.json_matching import list_bad_matchers
from evalspec.base.json_path import explain_bad_query
from evalspec.base.jsonl import MAX_DEPTH
from evalspec.base.registry import near_miss
from evalspec.inputs.checks import JsonlCheck, render_check
from evalspec.inputs.manifest.environment_schema import read_duration
from evalspec.inputs.manifest.yaml_source import render_path
from evalspec.model import HIGHEST_GRADE, AgentReply, ExpectedState, Sample, SimulatedUser, Turn, Usage
from evalspec.model.base import built
from evalspec.model.samples import render_input

PlainText = Annotated[str, Meta(min_length=1)]
Speaker = Literal["system", "user", "assistant", "tool"]


class PlainTurn(Struct, forbid_unknown_fields=True, gc=False):
    """One turn of a conversation."""

    role: Speaker
    content: str


class PlainSample(Struct, forbid_unknown_fields=True, omit_defaults=True, gc=False):
    """A line with the keys of the strict record; None for absent keys."""

    input: PlainText | Annotated[tuple[PlainTurn, ...], Meta(min_length=1)]
    expected: str | Annotated[tuple[PlainText, ...], Meta(min_length=1)]
    context: tuple[str, ...] | None = None
    reference_contexts: tuple[str, ...] | None = None
    relevant: dict[PlainText, Annotated[int, Meta(ge=0, le=HIGHEST_GRADE)]] | list[PlainText] | None = None
    tags: tuple[PlainText, ...] | None = None
    metadata: dict[str, Any] | None = None
    id: PlainText | None = None
    answerable: bool | None = None
    forbidden_tools: tuple[PlainText, ...] | None = None
    max_steps: Annotated[int, Meta(ge=1)] | None = None


_decode = Decoder(built(PlainSample)).decode
_encode = Encoder().encode


def parse_plain_sample(line: bytes) -> PlainSample | None:
    r"""Return the sample of a line, or None if the strict reader has to read the line.

    This is safe because msgspec accepts nothing that the strict reader refuses, with two exceptions that are checked
    here. One is a conversation whose last turn is not the user's. The other is a duplicate key: msgspec keeps the last
    value and drops the others. Each colon of a line follows a key or is part of a text. The encoded sample has the
    colons of all keys and texts that were kept, so the line has more of them if a key was dropped. Only a colon written
    as \u003a would spoil the count, so a line with such an escape is read strictly.
    """
    try:
        sample = _decode(line)
        colons = _encode(sample).count(b":")
    except (MsgspecError, ValueError, OverflowError, RecursionError):
        return None
    if sample.metadata and line.count(b"[") + line.count(b"{") > MAX_DEPTH:
        return None
    if colons != line.count(b":") or line.find(rb"\u003") >= 0:
        return None
    return sample if isinstance(sample.input, str) or sample.input[-1].role == "user" else None


_RULES = ("nothing_else", "ignore", "within")


def read_expected_state(given: Mapping[str, Any]) -> ExpectedState:
    """Return the state that a line expects.

    Raises:
        ValueError: a key is neither a query nor a rule, or a value is no value of it.
    """
    values = {key: value for key, value in given.items() if key.startswith("$")}
    odd = next((key for key in given if key not in values and key not in _RULES), None)
    if odd is not None:
        raise ValueError(f"'{odd}' is no JSONPath query, which begins with $, and no rule; {near_miss(odd, _RULES)}")
    if not values and given.get("nothing_else") is not True:
        raise ValueError('it names no value; write a query, as in {"$.bookings[0].city": "Paris"}')
    ignored = given.get("ignore", [])
    if not isinstance(ignored, list) or not all(isinstance(one, str) for one in ignored):
        raise ValueError("ignore is a list of JSONPath queries")
    for query in (*values, *ignored):
        reason = explain_bad_query(query)
        if reason is not None:
            raise ValueError(reason)
    for query, value in values.items():
        for place, message in list_bad_matchers(value, (query,)):
            raise ValueError(f"{render_path(place)}: {message}")
    only, within = given.get("nothing_else"), read_duration(given.get("within"))
    if only not in (None, True, False):
        raise ValueError("nothing_else is true or false")
    if within is not None and (isinstance(within, bool) or not isinstance(within, int | float) or within < 0):
        raise ValueError("within is a time, such as 5s")
    return ExpectedState(values, only, tuple(ignored), None if within is None else float(within))


def render_expected_state(state: ExpectedState) -> dict[str, Any]:
    """Return the state as a line has it."""
    rules = {"nothing_else": state.nothing_else, "ignore": list(state.ignore) or None, "within": state.within}
    return {**state.values, **{key: value for key, value in rules.items() if value is not None}}


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


def find_shape(value: Any) -> str:
    """Return what a value of `relevant` is: a map, groups or a list."""
    if isinstance(value, dict):
        return "map"
    return "groups" if isinstance(value, list) and value and isinstance(value[0], list) else "list"


Expected = Annotated[
    Annotated[StrictStr, Tag("text")]
    | Annotated[list[Annotated[StrictStr, Field(min_length=1)]], Field(min_length=1), Tag("list")],
    Discriminator(lambda value: "list" if isinstance(value, list) else "text"),
]


class JsonlMessage(BaseModel):
    """One turn of a conversation."""

    model_config = ConfigDict(extra="forbid", defer_build=True)
    role: Speaker = Field(description="Who speaks.")
    content: StrictStr = Field(description="The text.")


class JsonlCall(BaseModel):
    """A call of a tool that the agent should make."""

    model_config = ConfigDict(extra="forbid", defer_build=True)
    name: Text = Field(description="The name of the tool.")
    arguments: dict[str, Any] | None = Field(
        None, description="Its arguments as a JSON object, in which matchers may stand for values. Default: any."
    )

    @model_validator(mode="after")
    def _matchers_are_valid(self) -> "JsonlCall":
        found = next(list_bad_matchers(self.arguments), None)
        if found is not None:
            place, message = found
            raise ValueError(f"arguments.{render_path(place)}: {message}" if place else message)
        return self


Texts = list[StrictStr]
Grade = Annotated[StrictInt, Field(ge=0, le=HIGHEST_GRADE)]


class JsonlTurn(BaseModel):
    """One turn of a scripted conversation."""

    model_config = ConfigDict(extra="forbid", defer_build=True)
    user: Text = Field(description="What the user says.")
    expected: Expected | None = Field(None, description="The expected answer to it, or a list of alternatives.")
    expected_tools: list[JsonlCall] | None = Field(None, description="The calls of tools before the answer, in order.")
    checks: list[JsonlCheck] = Field(default_factory=list, description="What its answer has to pass without a judge.")


class JsonlSample(BaseModel):
    """One line of a dataset."""

    model_config = ConfigDict(extra="forbid", defer_build=True, title="evalspec dataset line")
    input: Annotated[
        Annotated[Text, Tag("text")] | Annotated[list[JsonlMessage], Field(min_length=1), Tag("list")],
        Discriminator(lambda value: "list" if isinstance(value, list) else "text"),
    ] = Field(description="The question, or the conversation whose last message is the user's.")
    expected: Expected = Field(
        description="The expected answer, or a list of alternatives. May be empty if no metric needs it."
    )
    turns: Annotated[list[JsonlTurn], Field(min_length=1)] | None = Field(
        None,
        description="A script of what the user says, turn by turn, in place of `input`, which then has only the "
        "messages before it.",
    )
    user: JsonlUser | None = Field(
        None,
        description="A user whom a model plays until the goal is reached, in place of `input`, which then has only the "
        "messages before.",
    )
    context: Texts | None = Field(None, description="Passages the agent had; those of the reply override them.")
    reference_contexts: Texts | None = Field(None, description="Passages that contain the answer.")
    relevant: (
        Annotated[
            Annotated[list[Text], Tag("list")]
            | Annotated[dict[Text, Grade], Tag("map")]
            | Annotated[list[Annotated[list[Text], Field(min_length=1)]], Field(min_length=1), Tag("groups")],
            Discriminator(find_shape),
        ]
        | None
    ) = Field(
        None,
        description="Ids of the relevant documents; or {id: grade}, 0 for judged not relevant; or groups: "
        "[[a, b], [c]] means that (a or b) and c are required.",
    )
    answerable: StrictBool | None = Field(
        None, description="Whether the documents contain an answer; if false, the agent should decline."
    )
    expected_tools: list[JsonlCall] | None = Field(
        None, description="The calls of tools that the agent should make, in order; an empty list: none."
    )
    expected_state: dict[StrictStr, Any] | None = Field(
        None,
        description="The state of the world after the attempt, by JSONPath query; matchers may stand for values. "
        "`nothing_else: true`: all else is as before, but for what the queries of `ignore` select. `within`: how long "
        "that may take, such as 5s.",
    )
    forbidden_tools: list[Text] | None = Field(None, description="Names of tools that the agent must not call.")
    checks: Annotated[list[JsonlCheck], Field(min_length=1)] | None = Field(
        None, description="What the answer has to pass without a judge: metrics with their parameters."
    )
    max_steps: Annotated[StrictInt, Field(ge=1)] | None = Field(
        None, description="How often the agent may call its model."
    )
    tags: list[Text] = Field(default_factory=list, description="Words to select samples by and to group results by.")
    metadata: dict[str, Any] = Field(
        default_factory=dict, description="Further data of any kind, to select samples by and to group results by."
    )
    id: Text | None = Field(None, description="Stable name of the sample; by default, a hash of its content.")

    @model_validator(mode="before")
    @classmethod
    def _script_is_the_input(cls, value: Any) -> Any:
        """Fill in what a script or a goal makes superfluous. `input` has the messages before it."""
        if isinstance(value, dict) and isinstance(value.get("user"), dict):
            if isinstance(value.get("input"), str) or "turns" in value:
                raise ValueError(
                    "a model plays the user, so input and turns do not say what the user asks; remove them"
                )
            return {"input": "?", "expected": ""} | value
        if not isinstance(value, dict) or not isinstance(value.get("turns"), list):
            return value
        if isinstance(value.get("input"), str):
            raise ValueError("input and turns both say what the user asks first; write it as the first turn")  # noqa: TRY004
        first = value["turns"][0] if value["turns"] else None
        said = first.get("user") if isinstance(first, dict) else None
        return {"input": said if isinstance(said, str) and said else "?", "expected": ""} | value

    @field_validator("expected_state")
    @classmethod
    def _is_a_state(cls, given: dict[str, Any] | None) -> dict[str, Any] | None:
        """Raise a ValueError for what no state has."""
        if given is not None:
            read_expected_state(given)
        return given

    @model_validator(mode="after")
    def _ends_with_the_user(self) -> "JsonlSample":
        if self.turns is None and self.user is None and isinstance(self.input, list) and self.input[-1].role != "user":
            raise ValueError("the last message of input must have the role user")
        return self


def _to_turn(turn: Turn) -> dict[str, Any]:
    return {
        "user": turn.user,
        **({"expected": list(turn.references)} if turn.references else {}),
        **({} if turn.expected_tools is None else {"expected_tools": to_builtins(turn.expected_tools)}),
        **({"checks": [render_check(check) for check in turn.checks]} if turn.checks else {}),
    }


def _list(values: Sequence[str] | None) -> list[str] | None:
    return None if values is None else list(values)


def list_fields(sample: Sample) -> dict[str, Any]:
    """Return the fields of a line, None for those that the sample lacks."""
    groups = sample.groups
    return {
        "id": sample.id,
        "input": (render_input(sample.opening) or None)
        if sample.turns or sample.user
        else render_input(sample.user_input),
        "turns": [_to_turn(turn) for turn in sample.turns] or None,
        "user": None if sample.user is None else render_user(sample.user),
        "expected": list(sample.references) if len(sample.references) > 1 else sample.reference,
        "context": _list(sample.retrieved_contexts),
        "reference_contexts": _list(sample.reference_contexts),
        "relevant": sample.qrels if groups is None else [list(group) for group in groups],
        "answerable": sample.answerable,
        "expected_tools": to_builtins(sample.expected_tools),
        "forbidden_tools": _list(sample.forbidden_tools),
        "max_steps": sample.max_steps,
        "expected_state": None if sample.expected_state is None else render_expected_state(sample.expected_state),
        "checks": [render_check(check) for check in sample.checks] or None,
        "tags": list(sample.tags) or None,
        "metadata": sample.metadata or None,
    }


def render_reply(reply: AgentReply) -> dict[str, Any]:
    """Return the keys of a recorded reply, None for those that it lacks."""
    usage = None if reply.usage is None else {name: getattr(reply.usage, name) for name in Usage.__struct_fields__}
    return {
        "response": reply.response,
        "retrieved_contexts": _list(reply.retrieved_contexts),
        "retrieved_context_ids": _list(reply.retrieved_context_ids),
        "tool_calls": None if reply.tool_calls is None else to_builtins(reply.tool_calls),
        "latencyMs": reply.latency_ms,
        "usage": usage,
        "steps": reply.steps,
    }
