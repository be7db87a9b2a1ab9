"""The wires of judges: how to ask a question and read the answer, by `judge.wire`.

Each wire is a module of `evalspec.scoring.judge.wires`, or of another package (entry point group `evalspec.judges`).
All wires share one client: its retries, repairs, checks of answers, cache, and handling of refused parameters.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

from msgspec import Struct

from evalspec.base.errors import JudgeError
from evalspec.base.registry import Registry, returned
from evalspec.model import Usage
from evalspec.scoring.judge.batch_wire import BatchWire
from evalspec.targets.http.keys import build_bearer


class JudgeQuestion(Struct, frozen=True):
    """One request to a judge.

    `messages`: `role` and `content` of each, the system's first, unless the endpoint takes no system message; then the
    user's and the assistant's in turn. `schema`: JSON Schema of the answer. `form`: how to request JSON, one of the
    wire's `forms`; None: only the system message requests it. `parameters`: others, by their names on the wire.
    `answers`: number of choices, more than 1 only if the wire gives several.
    """

    model: str
    messages: Sequence[Mapping[str, str]]
    schema: Mapping[str, Any]
    form: str | None = None
    parameters: Mapping[str, Any] = {}
    answers: int = 1


class JudgeChoice(Struct, frozen=True):
    """One answer of a judge. `text`: the JSON object that the judge wrote, not checked.

    `is_truncated`: it reached the limit on output tokens. `refusal`: why the judge refuses to answer. `incomplete`:
    another reason why the answer ended early, as the endpoint states it. `misplaced`: the field of the reply that may
    have the answer instead.
    """

    text: str = ""
    is_truncated: bool = False
    refusal: str | None = None
    incomplete: str | None = None
    misplaced: str | None = None


class JudgeReply(Struct, frozen=True):
    """What a reply has. `usage`: None if it does not count tokens.

    `stated`: what it says about the judge, under `model` and `system_fingerprint`; anything else is ignored.
    """

    choices: Sequence[JudgeChoice]
    usage: Usage | None = None
    stated: Mapping[str, Any] = {}


class JudgeRequestBuilder(Protocol):
    """Builds requests."""

    def __call__(self, question: JudgeQuestion, /) -> dict[str, Any]:
        """Return the JSON object to send. Equal questions give equal bytes, and the sample comes last."""
        ...


class JudgeReplyReader(Protocol):
    """Reads replies."""

    def __call__(self, reply: Mapping[str, Any], /) -> JudgeReply:
        """Return the parts of a reply with status 200. A reply that is none has no choices."""
        ...


class JudgeWire(Struct, frozen=True):
    """One protocol of a judge's endpoint.

    `path`: appended to the base url. `build_headers`: the credentials of a key. `headers`: sent with each request,
    unless the manifest has its own. `forms`: ways to request JSON, in the order to try, for each `responseFormat` that
    the wire knows besides none. `form_keys`: the keys of the request that a form sets; an endpoint that refuses one
    refuses the form. `limit_keys`: names of the limit on output tokens. `gives_several`: whether one request may have
    several answers. `batch`: how to send requests as a batch; None: the wire has none.
    """

    name: str
    summary: str
    path: str
    build_request: JudgeRequestBuilder
    read_reply: JudgeReplyReader
    build_headers: Callable[[str], Mapping[str, str]] = build_bearer
    headers: Mapping[str, str] = {}
    forms: Mapping[str, Sequence[str]] = {}
    form_keys: Mapping[str, Sequence[str]] = {}
    limit_keys: Sequence[str] = ("max_tokens",)
    gives_several: bool = False
    batch: BatchWire | None = None

    def register(self, registry: "Registry[JudgeWire]") -> None:
        """Register the wire under its name.

        Raises:
            ValueError: the name is taken.
        """
        registry.add(self.name, self)

    def build(self, question: JudgeQuestion) -> dict[str, Any]:
        """Return the JSON object to send.

        Raises:
            JudgeError: the wire of another package failed.
        """
        with JUDGE_WIRES.attribute_errors(self.name, JudgeError):
            return returned(self.build_request(question), dict)

    def read(self, reply: Mapping[str, Any]) -> JudgeReply:
        """Return the parts of a reply.

        Raises:
            JudgeError: the wire of another package failed.
        """
        with JUDGE_WIRES.attribute_errors(self.name, JudgeError):
            return returned(self.read_reply(reply), JudgeReply)


JUDGE_WIRES: Registry[JudgeWire] = Registry(
    "judge wire", "evalspec.judges", ("evalspec.scoring.judge.wires",), JudgeWire
)


def find_judge_wire(name: str) -> JudgeWire:
    """Return the wire of a judge.

    Raises:
        JudgeError: there is none of this name.
    """
    wire = JUDGE_WIRES.find(name)
    if wire is None:
        raise JudgeError(f"unknown judge wire '{name}'; {JUDGE_WIRES.hint(name)}", fatal=True)
    return wire


def close_schema(schema: Any) -> Any:
    """Return a JSON Schema whose objects allow no further keys, which some endpoints require."""
    if isinstance(schema, list):
        return [close_schema(item) for item in schema]
    if not isinstance(schema, Mapping):
        return schema
    closed = {key: close_schema(value) for key, value in schema.items()}
    return {**closed, "additionalProperties": False} if closed.get("type") == "object" else closed
