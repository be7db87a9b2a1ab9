"""Bounds of numbers in requests: what a run can do, so that a job does not fail later at a number."""

from typing import Annotated

from pydantic import Field

LARGEST_INTEGER = 2**53 - 1
"""Every reader of JSON keeps integers up to this one."""

Seed = Annotated[int, Field(ge=-LARGEST_INTEGER, le=LARGEST_INTEGER)]
ResamplingSeed = Annotated[int, Field(ge=0, le=LARGEST_INTEGER)]
SampleSize = Annotated[int, Field(ge=1, le=100_000_000)]
Depth = Annotated[int, Field(ge=1, le=100_000)]
"""Documents of one ranking."""
Version = Annotated[int, Field(ge=1, le=999_999_999)]
"""Of a posted dataset, whose file has nine digits at most, or a revision of a triple."""
