"""The strict reader of the native format's lines: it reads all that a line may have, and explains every error."""

from collections.abc import Mapping, Sequence
from itertools import chain
from typing import Annotated, Any

from msgspec import UNSET
from msgspec.structs import replace
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

from evalspec.base.errors import Problem
from evalspec.base.json_matching import list_bad_matchers
from evalspec.base.json_path import explain_bad_query
from evalspec.base.registry import near_miss
from evalspec.inputs.checks import JsonlCheck
from evalspec.inputs.datasets.base import ReadingNotes
from evalspec.inputs.datasets.jsonl_lines import PlainSample, Speaker, read_expected
from evalspec.inputs.datasets.located import LineOfFile, parse_record, problem_at
from evalspec.inputs.manifest.environment_schema import read_duration
from evalspec.inputs.manifest.yaml_source import render_path
from evalspec.model import HIGHEST_GRADE, ExpectedCall, ExpectedState, Message, Sample, SimulatedUser, Turn

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


_RETRIEVED = "write what the agent had under context"
_REPLY = "for files that also have replies, set format: records"
_HINTS = {
    "retrieved_contexts": _RETRIEVED,
    "retrieval_context": _RETRIEVED,
    "contexts": _RETRIEVED,
    "documents": _RETRIEVED,
    "response": _REPLY,
    "actual_output": _REPLY,
    "output": _REPLY,
    "answer": "write the right answer under expected; a reply belongs to --responses",
    "question": "write input",
    "query": "write input",
    "ground_truth": "write expected",
    "reference": "write expected",
}
"""Fixes for keys of other systems. A similar name may mean the opposite: what was retrieved is not the truth."""


def parse_line(value: Any, line: LineOfFile, notes: ReadingNotes) -> JsonlSample | None:
    """Return the record of a line that was decoded, or None if it has errors, which go to `notes`."""
    if not isinstance(value, dict):
        notes.problems.append(
            problem_at(line, (), "the sample is not a JSON object", 'write an object like {"input": …}')
        )
        return None
    if "expected_output" in value and "expected" not in value:
        value["expected"] = value.pop("expected_output")
        place = ("expected_output",)
        notes.warnings.append(problem_at(line, place, "expected_output is read as expected", "rename it"))
    found: list[Problem] = []
    record = parse_record(JsonlSample, value, line, (), found)
    notes.problems += [replace(one, fix=_HINTS[one.field]) if _is_foreign(one) else one for one in found]
    return record


def _is_foreign(problem: Problem) -> bool:
    return problem.field in _HINTS and problem.message.startswith("unknown key")


def to_plain(record: JsonlSample) -> PlainSample:
    """Return what common lines have of a record, and groups as grades."""
    given = (getattr(record, name) for name in PlainSample.__struct_fields__)
    values: list[Any] = [tuple(value) if isinstance(value, list) else value for value in given]
    plain = PlainSample(*values)
    groups = _list_groups(record)
    return plain if groups is None else replace(plain, relevant=dict.fromkeys(chain(*groups), 1))


def _list_groups(record: JsonlSample) -> tuple[tuple[str, ...], ...] | None:
    """Return the AND/OR groups of a record, if it has them."""
    if find_shape(record.relevant) != "groups":
        return None
    return tuple(tuple(dict.fromkeys(group)) for group in record.relevant or ())


def add_acts(sample: Sample, record: JsonlSample) -> Sample:
    """Return a sample with what common lines lack."""
    turns, asked = _read_turns(record), sample.user_input
    if turns and not isinstance(asked, str):
        asked = (*asked, Message("user", turns[0].user))
    user = None if record.user is None else record.user.to_user()
    if user is not None:
        asked = user.goal if isinstance(asked, str) else (*asked, Message("user", user.goal))
    return replace(
        sample,
        user_input=asked,
        groups=_list_groups(record),
        expected_tools=_read_calls(record.expected_tools),
        turns=turns,
        expected_state=None if record.expected_state is None else read_expected_state(record.expected_state),
        user=user,
        checks=tuple(one.to_check() for one in record.checks or ()),
    )


def _read_turns(record: JsonlSample) -> tuple[Turn, ...]:
    return tuple(
        Turn(
            one.user,
            read_expected(one.expected or ()),
            _read_calls(one.expected_tools),
            tuple(check.to_check() for check in one.checks),
        )
        for one in record.turns or ()
    )


def _read_calls(calls: Sequence[JsonlCall] | None) -> tuple[ExpectedCall, ...] | None:
    if calls is None:
        return None
    return tuple(ExpectedCall(one.name, UNSET if one.arguments is None else one.arguments) for one in calls)
