"""promptfoo: test cases in YAML, JSON, JSON Lines or CSV. Asserts with a counterpart give the right answers."""

from evalspec.inputs.datasets.base import DatasetFormat, when_used
from evalspec.inputs.formats.promptfoo.recognition import recognises

PROMPTFOO = DatasetFormat(
    name="promptfoo",
    summary="promptfoo's tests: vars and asserts (YAML, JSON or CSV)",
    read=when_used("evalspec.inputs.formats.promptfoo.cases", "read_promptfoo"),
    recognises=recognises,
    list_losses=when_used("evalspec.inputs.formats.promptfoo.cases", "list_losses"),
    write=when_used("evalspec.inputs.formats.promptfoo.cases", "write_promptfoo"),
    takes_fields=True,
)
