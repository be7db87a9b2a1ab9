"""What a cell of the matrix injects: faults of the agent and of the judge, as data, and servers that carry them out.

Eight samples. Each reply makes two statements; the contexts of even samples support both, those of odd samples the
first. The agent's faults hit the first samples, the judge's the last ones.
"""

import json
import re
import socket
import threading
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from typing import Any

from servers.faulty_agent import Answer, FaultyAgent, throttled
from servers.faulty_agent import status as agent_status
from servers.scripted_judge import RULES, ScriptedJudge
from servers.scripted_judge import status as judge_status

SAMPLES = 8
SHARES = {"one": 1, "some": 3, "all": SAMPLES}
TIMEOUT_SECONDS = 2.0
SLOW_SECONDS = 0.25
TOKENS = 10
_ABSENT = object()
"""A key that the reply lacks."""


def dataset() -> list[dict[str, Any]]:
    """The lines of the dataset. The agent answers the last sample wrongly even without a fault."""
    return [
        {
            "id": f"s{n}",
            "input": f"Describe unit{n}.",
            "expected": "brass" if n == SAMPLES - 1 else "copper",
            "metadata": {"parity": "odd" if n % 2 else "even"},
        }
        for n in range(SAMPLES)
    ]


def healthy_reply(n: int) -> dict[str, Any]:
    """What the agent answers to a sample without a fault."""
    statements = [f"The unit{n} engine is made of copper.", f"The unit{n} housing weighs {40 + n} kilograms."]
    return {
        "response": " ".join(statements),
        "contexts": statements[: 1 if n % 2 else 2],
        "usage": {"input_tokens": TOKENS - 2, "output_tokens": 2},
        "finish": "stop",
    }


def supported_statements(n: int) -> tuple[int, int]:
    """How many of the statements in the healthy reply its contexts support, and how many there are."""
    return (1 if n % 2 else 2), 2


@dataclass(frozen=True)
class AgentFault:
    """One way for an agent to fail.

    `answer`: what is sent instead of a reply. `change`: keys of the reply that are other or absent. `invents`: its
    statements and answer are wrong. `once`: only the first request of a sample. `seconds`: it takes as long.
    `refuses`: nobody listens.
    """

    answer: Answer | str | None = None
    change: Mapping[str, Any] = field(default_factory=dict)
    invents: bool = False
    once: bool = False
    seconds: float = 0.0
    refuses: bool = False

    def reply(self, n: int) -> dict[str, Any] | None:
        """The body of the last reply to a sample in JSON; None where no JSON reply is sent."""
        if self.refuses or (self.answer is not None and not self.once):
            return None
        reply = healthy_reply(n) | dict(self.change)
        if self.invents:
            reply["response"] = f"The unit{n} gears sing on Sundays. The unit{n} lamp is violet."
        return {key: value for key, value in reply.items() if value is not _ABSENT}


AGENT_FAULTS: Mapping[str, AgentFault] = {
    "none": AgentFault(),
    "http_500": AgentFault(agent_status(500)),
    "http_500_once": AgentFault(agent_status(500), once=True),
    "throttled_once": AgentFault(throttled(0.05), once=True),
    "timeout": AgentFault("refuse_to_speak", seconds=1.5 * TIMEOUT_SECONDS),
    "refused": AgentFault(refuses=True),
    "html": AgentFault("html"),
    "error_in_200": AgentFault(Answer(body=b'{"error": {"message": "out of memory"}}')),
    "wrong_shape": AgentFault(change={"response": 5}),
    "contexts_absent": AgentFault(change={"contexts": _ABSENT}),
    "contexts_null": AgentFault(change={"contexts": None}),
    "contexts_empty": AgentFault(change={"contexts": []}),
    "empty": AgentFault(change={"response": " "}),
    "abstention": AgentFault(change={"response": "I don't know."}),
    "invented": AgentFault(invents=True),
    "cut_off": AgentFault(change={"finish": "length"}),
    "no_finish_reason": AgentFault(change={"finish": _ABSENT}),
    "no_usage": AgentFault(change={"usage": _ABSENT}),
    "slow": AgentFault(seconds=SLOW_SECONDS),
}


@dataclass(frozen=True)
class JudgeFault:
    """One way for a judge to fail. `mode`: the scripted judge's; None where it is off.

    `spoils`: which of its answers cannot be used for a score: "nothing", "verdicts" or "everything"; "statements":
    it finds none. `once`: only the first request of its kind about a sample. `whole`: it cannot hit single samples.
    """

    mode: Any = "ok"
    spoils: str = "nothing"
    once: bool = False
    whole: bool = False


JUDGE_FAULTS: Mapping[str, JudgeFault] = {
    "none": JudgeFault(),
    **{mode: JudgeFault(mode) for mode in ("fenced", "parts", "reasoned", "restyled", "reversed", "truncated_once")},
    "http_500_once": JudgeFault(judge_status(500), once=True),
    "prose_once": JudgeFault("prose", once=True),
    **{
        mode: JudgeFault(mode, "verdicts")
        for mode in ("wrong_count", "extra", "out_of_range", "negative", "foreign", "repeated")
    },
    **{
        mode: JudgeFault(mode, "everything")
        for mode in ("empty", "malformed", "no_choices", "parrot", "prose", "refusal", "truncated", "unfinished")
    },
    "wrong_schema": JudgeFault("wrong_schema", "everything"),
    "no_statements": JudgeFault("no_statements", "statements"),
    "http_500": JudgeFault(judge_status(500), "everything"),
    "http_401": JudgeFault(judge_status(401), "everything", whole=True),
    "refused": JudgeFault(None, "everything", whole=True),
}
HARMLESS = tuple(name for name, fault in JUDGE_FAULTS.items() if fault.spoils == "nothing")


def _sample_in(text: str) -> int:
    return int(re.findall(r"unit(\d)", text)[-1])


class _Requests:
    """Counts the requests about each thing, from 1."""

    def __init__(self) -> None:
        self._counts: Counter[Any] = Counter()
        self._lock = threading.Lock()

    def number(self, key: Any) -> int:
        with self._lock:
            self._counts[key] += 1
            return self._counts[key]


class InjectedAgent(FaultyAgent):
    """An agent that fails for the first `hit` samples; with `only_first`, only in the first attempt of each."""

    def inject(self, fault: AgentFault, hit: int, *, only_first: bool = False) -> None:
        """From now on. `answered`: how often each sample was answered at all."""
        self._fault, self._hit, self._only_first = fault, hit, only_first
        self._numbers = _Requests()
        self.answered: Counter[int] = Counter()

    def begin(self, request: Any) -> str | Answer:
        found = super().begin(request)
        n = _sample_in(request.body["message"])
        number = self._numbers.number(n)
        if found == "refuse_to_speak":
            return found
        self.answered[n] += 1
        fault = self._fault
        if n >= self._hit or fault.refuses or (self._only_first and number > 1):
            return Answer(body=json.dumps(healthy_reply(n)).encode())
        time.sleep(fault.seconds)
        if fault.answer is not None and (number == 1 or not fault.once):
            return fault.answer
        return Answer(body=json.dumps(fault.reply(n)).encode())


class InjectedJudge(ScriptedJudge):
    """A judge that fails for the last `hit` samples."""

    def inject(self, fault: JudgeFault, hit: int) -> None:
        """From now on."""
        self._fault, self._hit = fault, hit
        self._numbers = _Requests()

    def begin(self, request: Any) -> Any:
        super().begin(request)
        n = _sample_in(request.prompt.rpartition("\ninput: ")[2])
        kind = next(kind for kind, (beginning, _) in RULES.items() if request.prompt.startswith(beginning))
        number = self._numbers.number((n, kind))
        is_hit = n >= SAMPLES - self._hit and (number == 1 or not self._fault.once)
        return self._fault.mode if is_hit else "ok"


@contextmanager
def closed_url() -> Iterator[str]:
    """An address of this machine at which nobody listens, and nobody else can."""
    with closing(socket.socket()) as reserved:
        reserved.bind(("127.0.0.1", 0))
        yield f"http://127.0.0.1:{reserved.getsockname()[1]}"
