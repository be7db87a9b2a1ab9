"""The exception tree, and the exit code of each family.

EvalspecError
├── InvalidInput            exit 2   the user can fix it: manifest, dataset, option, nothing selected
│   └── MissingPackage      exit 2   a package of the full installation or of an extra is not there
├── Unmeasurable            exit 3   the run could not measure what it was asked to
│   ├── AgentDown                    the agent stopped answering (or never did)
│   └── StoreError                   the run log cannot be read or written
├── ServiceError            one request failed; recorded on the sample it happened to, never raised out of the runner
│   └── RetrieverError               the retriever under test failed, which is asked in the agent's place
└── MetricError             recorded on the score it happened to, never raised out of the runner
    └── JudgeError          (and ServiceError) the judge failed to give a verdict that can be used
"""

from collections.abc import Iterable
from dataclasses import dataclass
from enum import IntEnum
from typing import TypeVar


class ExitCode(IntEnum):
    """What the process answers to its caller; the table stands in the README."""

    OK = 0
    GATE_FAILED = 1
    INVALID = 2
    UNMEASURED = 3
    INTERRUPTED = 130


@dataclass(frozen=True, slots=True)
class Problem:
    """One thing wrong with the user's input: where it stands, what it is, how to mend it."""

    message: str
    fix: str = ""
    file: str = ""
    line: int | None = None
    field: str = ""

    def render(self) -> str:
        """One line: `file:line: field: problem. fix`, without the parts that are not known."""
        place = f"{self.file}:{self.line}" if self.file and self.line else self.file
        parts = [part for part in (place, self.field) if part]
        sentence = f"{self.message}. {self.fix}" if self.fix else self.message
        return ": ".join([*parts, sentence])


class EvalspecError(Exception):
    """Base of all errors raised on purpose; `exit_code` is what the command line answers with."""

    exit_code: ExitCode = ExitCode.UNMEASURED


class InvalidInput(EvalspecError):
    """Everything found wrong with the input, gathered before anything was called or spent."""

    exit_code = ExitCode.INVALID

    def __init__(self, problems: Iterable[Problem] | Problem | str, fix: str = "") -> None:
        if isinstance(problems, str):
            problems = Problem(problems, fix)
        self.problems = (problems,) if isinstance(problems, Problem) else tuple(problems)
        super().__init__("\n".join(problem.render() for problem in self.problems))


class MissingPackage(InvalidInput):
    """Something needs a package that this installation has not: a slim one, or one without the extra."""

    def __init__(self, needed_by: str, package: str, extra: str = "") -> None:
        super().__init__(f"{needed_by} needs {package}, which is not installed", install_fix(extra))


def install_fix(extra: str = "") -> str:
    """How to install evalspec with all that it depends on, and with an extra."""
    return f"pip install 'evalspec-runner[{extra}]'" if extra else "pip install evalspec-runner"


class Unmeasurable(EvalspecError):
    """The run cannot go on; what was gathered so far stays in the store."""


class AgentDown(Unmeasurable):
    """The agent does not accept connections, or its command did not become ready."""


class StoreError(Unmeasurable):
    """The run log cannot be written (disk full, read-only) or read back."""


Kind = TypeVar("Kind", bound="ServiceError")


class ServiceError(EvalspecError):
    """One request to a service (agent, retriever, judge, embeddings) gave no usable reply.

    `retryable`: another attempt may succeed. `retry_after`: seconds that the service asks us to wait. `throttled`: the
    service has too much to do (429, 503). `unreachable`: no connection could be made. `fatal`: every further request
    would fail for the same reason.
    """

    def __init__(
        self,
        message: str,
        *,
        retryable: bool = False,
        retry_after: float | None = None,
        throttled: bool = False,
        unreachable: bool = False,
        fatal: bool = False,
    ) -> None:
        super().__init__(message)
        self.retryable = retryable
        self.retry_after = retry_after
        self.throttled = throttled
        self.unreachable = unreachable
        self.fatal = fatal

    def named(self, kind: type[Kind], name: str) -> Kind:
        """Return the same error as one of another kind, with a name before its message: `search: …`."""
        return kind(
            f"{name}: {self}",
            retryable=self.retryable,
            retry_after=self.retry_after,
            throttled=self.throttled,
            unreachable=self.unreachable,
            fatal=self.fatal,
        )


class RetrieverError(ServiceError):
    """One call of the retriever under test (search, rerank, ingest, delete) did not do what was asked."""


class MetricError(EvalspecError):
    """One metric could not score one sample."""


class JudgeError(MetricError, ServiceError):
    """The judge or the embeddings service did not give an answer that can be used."""
