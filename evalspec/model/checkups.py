"""What `evalspec doctor` finds."""

from enum import StrEnum
from typing import Annotated, Literal

from msgspec import Meta

from evalspec.model.base import Record


class CheckupStatus(StrEnum):
    """What a check found. FAILED: a run would fail too. SKIPPED: it is not needed, or not visible."""

    OK = "ok"
    WARNING = "warning"
    FAILED = "failed"
    SKIPPED = "skipped"


class CheckupFinding(Record, frozen=True):
    """One thing that was checked."""

    name: Annotated[str, Meta(description="What was checked, such as agent, judge, embeddings, clock, or a proxy.")]
    status: Annotated[
        CheckupStatus, Meta(description="failed: a run would fail too. skipped: needless or not visible.")
    ]
    message: Annotated[str, Meta(description="What was found, in a sentence.")]
    fix: Annotated[str | None, Meta(description="What to do; null: nothing is wrong.")] = None


class Checkup(Record, frozen=True, kw_only=True):
    """The parts that a run of a manifest needs, each asked or looked at once."""

    schema_version: Annotated[Literal[1], Meta(description="Version of this document.")] = 1
    exit_code: Annotated[Literal[0, 3], Meta(description="The exit code of the command. 3: something failed.")]
    findings: Annotated[tuple[CheckupFinding, ...], Meta(description="In the order of the checks.")]
