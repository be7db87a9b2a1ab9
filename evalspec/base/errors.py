"""The exception hierarchy, and the exit code of each family.

EvalspecError
├── InvalidInput            exit 2   the user can fix it: manifest, dataset, option, empty selection
│   └── MissingPackage      exit 2   a package of the full installation or of an extra is not installed
├── Unmeasurable            exit 3   the run could not complete its measurements
│   ├── AgentDown                    the agent stopped answering, or never answered
│   └── StoreError                   the run log cannot be read or written
├── ServiceError            one request failed; recorded on its sample, never raised out of the runner
│   └── RetrieverError               the retriever under test failed; it is queried instead of an agent
└── MetricError             recorded on its score, never raised out of the runner
    └── JudgeError          (also a ServiceError) the judge returned no usable verdict
"""

from collections.abc import Callable, Iterable
from enum import IntEnum, StrEnum
from typing import Annotated, TypeVar

from msgspec import Meta, Struct
from msgspec.structs import replace


class ExitCode(IntEnum):
    """Exit code of the process. docs/explanation/gate.md has the table."""

    OK = 0
    GATE_FAILED = 1
    INVALID = 2
    UNMEASURED = 3
    INTERRUPTED = 130


class Problem(Struct, frozen=True):
    """One problem with the user's input: where it is, what is wrong, how to fix it."""

    message: Annotated[str, Meta(description="What is wrong.")]
    fix: Annotated[str, Meta(description="How to fix it.")] = ""
    file: Annotated[str, Meta(description="The file.")] = ""
    line: Annotated[int | None, Meta(description="Its line; null: unknown.")] = None
    field: Annotated[str, Meta(description="The field or option.")] = ""

    def render(self) -> str:
        """Return one line, `file:line: field: problem. fix`, without the parts that are unknown."""
        place = f"{self.file}:{self.line}" if self.file and self.line else self.file
        parts = [part for part in (place, self.field) if part]
        end = "" if self.message.endswith("?") else "."
        sentence = f"{self.message}{end} {self.fix}" if self.fix else self.message
        return ": ".join([*parts, sentence])

    def redacted(self, redact: Callable[[str], str]) -> "Problem":
        """Return a copy with secrets redacted."""
        message, fix, file, field = map(redact, (self.message, self.fix, self.file, self.field))
        return replace(self, message=message, fix=fix, file=file, field=field)


def split_fix(text: str) -> tuple[str, str]:
    """Return message and fix of a text `message; fix`, as checks raise it that do not know where a value stands."""
    message, _, fix = text.partition("; ")
    return message, fix


class EvalspecError(Exception):
    """Base class of all errors that evalspec raises. `exit_code`: exit code of the command line."""

    exit_code: ExitCode = ExitCode.UNMEASURED


class InvalidInput(EvalspecError):
    """All problems found in the input, collected before any service is called."""

    exit_code = ExitCode.INVALID

    def __init__(self, problems: Iterable[Problem] | Problem | str, fix: str = "") -> None:
        if isinstance(problems, str):
            problems = Problem(problems, fix)
        self.problems = (problems,) if isinstance(problems, Problem) else tuple(problems)
        super().__init__("\n".join(problem.render() for problem in self.problems))


class MissingPackage(InvalidInput):
    """A required package is not installed: the installation is slim, or lacks an extra."""

    def __init__(self, needed_by: str, package: str, extra: str) -> None:
        self.extra = extra
        super().__init__(f"{needed_by} needs {package}, which is not installed", install_fix(extra))


def install_fix(*extras: str) -> str:
    """Return the command that installs the packages of extras. It works with every installation, and in a checkout."""
    from shlex import join

    from evalspec.base.distribution import NAME, read_requirements

    known = read_requirements()
    return f"pip install {join(line for extra in extras for line in known.get(extra, [f'{NAME}[{extra}]']))}"


def check_packages(needed_by: str, packages: Iterable[str], extra: str) -> None:
    """Check that packages are installed, without importing them.

    Raises:
        MissingPackage: One of them is not.
    """
    from importlib.util import find_spec

    for package in packages:
        try:
            found = find_spec(package)
        except ModuleNotFoundError:  # of the package around it
            found = None
        if found is None:
            raise MissingPackage(needed_by, package, extra)


class Unmeasurable(EvalspecError):
    """The run cannot continue. The store keeps all results so far."""


class AgentDown(Unmeasurable):
    """The agent accepts no connections, or its command did not become ready."""


class StoreError(Unmeasurable):
    """The run log cannot be written (disk full, read-only) or read back."""


Kind = TypeVar("Kind", bound="ServiceError")


_REFUSALS = (413, 425, 429)


class FailureCause(StrEnum):
    """What made an attempt fail: the agent's reply, the world that it acts on, the simulated user, or the budget."""

    REPLY = "reply"
    ENVIRONMENT = "environment"
    USER = "user"
    STOPPED = "stopped"


class ServiceError(EvalspecError):
    """One request to a service (agent, retriever, judge, embeddings) gave no usable reply.

    `retryable`: another attempt may succeed. `retry_after`: seconds to wait, as requested by the service. `throttled`:
    the service is overloaded (429, 503, 529). `unreachable`: no connection could be made. `fatal`: every further
    request would fail for the same reason. `status`, `reply`: HTTP status and the beginning of the body, if there was
    a reply with an error status; the body may quote secrets. `cause`: what failed an attempt that ends so.
    """

    cause = FailureCause.REPLY

    def __init__(
        self,
        message: str,
        *,
        retryable: bool = False,
        retry_after: float | None = None,
        throttled: bool = False,
        unreachable: bool = False,
        fatal: bool = False,
        status: int | None = None,
        reply: str = "",
    ) -> None:
        super().__init__(message)
        self.retryable = retryable
        self.retry_after = retry_after
        self.throttled = throttled
        self.unreachable = unreachable
        self.fatal = fatal
        self.status = status
        self.reply = reply

    @property
    def is_refusal(self) -> bool:
        """Whether the service certainly did not act on the request: it was not reached, or it refused it for load."""
        return self.unreachable or self.status in _REFUSALS

    def named(self, kind: type[Kind], name: str) -> Kind:
        """Return a copy of this error of another kind, with a name before its message: `search: …`."""
        named = kind(f"{name}: {self}")
        vars(named).update(vars(self))
        return named


class EnvironmentFailed(ServiceError):
    """The world that an agent acts on could not be reset or read, so the attempt says nothing about the agent."""

    cause = FailureCause.ENVIRONMENT


class UserFailed(ServiceError):
    """The simulated user said nothing usable, so the attempt says nothing about the agent."""

    cause = FailureCause.USER


class UserSaidSecret(UserFailed):
    """The simulated user said what it must not say, so the attempt is void and may begin again."""


class RetrieverError(ServiceError):
    """One call of the retriever under test (search, rerank, ingest, delete) failed."""


class MetricError(EvalspecError):
    """One metric could not score one sample."""


class JudgeError(MetricError, ServiceError):
    """The judge or the embeddings service returned no usable answer."""
