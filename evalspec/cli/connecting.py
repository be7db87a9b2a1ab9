"""Connect an agent behind HTTP: ask it a question, show what its reply becomes, and prove that by a second question."""

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import click
from msgspec import Struct

from evalspec.base.errors import InvalidInput, Problem, ServiceError
from evalspec.base.foreign_text import inert
from evalspec.base.text import excerpt
from evalspec.cli.failure import redacting
from evalspec.cli.options import SeparatedText, group_options, option
from evalspec.cli.streams import can_prompt, emit, emit_line, notify
from evalspec.inputs.manifest.credentials import SECRET_SETTING, find_literals
from evalspec.inputs.manifest.loader import load_manifest
from evalspec.inputs.manifest.references import References, UnresolvedReference
from evalspec.model import Sample

if TYPE_CHECKING:
    from evalspec.targets.agents.recognition import Recognised

connect_options = group_options(
    option("--question", "questions", multiple=True, type=SeparatedText(), metavar="TEXT",
           help="A question for the agent, by default the first one of --data; another one proves the connection."),
    option("--header", "headers", multiple=True, type=SeparatedText(), metavar="'NAME: VALUE'",
           help="A header of all requests, such as 'Authorization: $env:TOKEN'; repeatable."),
    option("--model", metavar="NAME", help="The model that requests name, if the service needs one."),
    option("-y", "--yes", is_flag=True, help="Write the files without asking."),
)  # fmt: skip

_SHOWN_VALUES = 3


class FirstContact(Struct):
    """How an agent is asked what. `headers`: lines like `Name: value`, with references."""

    url: str
    questions: Sequence[str]
    headers: Sequence[str]
    model: str | None
    yes: bool

    def recognise(self, of_data: Sequence[str], folder: Path) -> "Recognised | None":
        """Return how the agent is asked, after one question to it, and show that. None: there is no question.

        `of_data`: the questions of the data. `folder`: of the manifest to be.

        Raises:
            InvalidInput: a header or the url cannot be used, or the result is not confirmed.
            Unmeasurable: the agent gives no answer that can be read.
        """
        from evalspec.api.loops import run_coroutine
        from evalspec.targets.agents.recognition import Recogniser

        known = self.questions or of_data
        if not known and can_prompt():
            known = [click.prompt(f"{which} question for the agent", "", err=True) for which in ("A", "Another")]
        self.questions = [*dict.fromkeys(text for text in known if text.strip())][:2]
        if not self.questions:
            return None
        if not (self.yes or can_prompt()):
            raise InvalidInput(Problem("nobody can confirm the result", "pass --yes, or use a terminal", field="--yes"))
        declared, references = _parse_headers(self.headers, self.url), References(folder)
        try:
            headers = {name: references.resolve(text) for name, text in declared.items()}
        except UnresolvedReference as error:
            raise InvalidInput(error.at("", None, "--header")) from error
        with redacting(references.redact):
            search = Recogniser(self.url, headers, self.model, lambda line: notify(references.redact(line)))
            found = run_coroutine(lambda: search.find(self.questions[0], declared))
        if references.redact_data(found.endpoint) != found.endpoint:
            raise InvalidInput("the service repeats a secret as a name in its reply, which no file may have")
        emit_line(f"The agent answers {excerpt(self.questions[0])}. This becomes spec.api:")
        for line in (f"url: {found.url}", *_describe(found)):
            emit(f"  {inert(references.redact(line))}")
        if not self.yes and not click.confirm("Write this?", err=True):
            raise InvalidInput("not confirmed, so nothing was written")
        return found

    def prove(self, manifest: Path, answer: str) -> None:
        """Ask the second question as `evaluate` will, by the written manifest, and say what that proves.

        `answer`: the one to the first question.
        """
        from evalspec.api.doctor import ask_by_http
        from evalspec.api.loops import run_coroutine
        from evalspec.runs.planning.services import resolve_target

        if len(self.questions) == 1:
            emit_line("not proved: there is only one question; whether another one gets another answer is unknown")
            return
        loaded = load_manifest(manifest)
        target = resolve_target(loaded, str(loaded.manifest.spec.api.url), None, [])
        sample = Sample("connect", self.questions[1], session=uuid4().hex)
        status, outcome = "200", "not proved: two questions got the same answer, so the agent may not read the question"
        try:
            reply = run_coroutine(lambda: ask_by_http(loaded, target, sample))
            if reply.response.strip() == self.questions[1].strip():
                outcome = "not proved: the reply repeats the question"
            elif reply.response.strip() != answer.strip():
                outcome = f"proved: another question got another answer, {excerpt(reply.response)}"
        except ServiceError as error:
            status, outcome = (
                str(error.status or "no answer"),
                f"not proved: the second question got no answer: {error}",
            )
        notify(f"{target.endpoint.method} {target.endpoint.path.partition('?')[0]} {status}")
        emit_line(loaded.references.redact(outcome))


def _parse_headers(lines: Sequence[str], url: str) -> dict[str, str]:
    """Return the headers of lines like `Name: value`.

    Raises:
        InvalidInput: a line has another form, or it or the url has a credential itself in place of a reference.
    """
    pairs = {name.strip(): text.strip() for name, _, text in (line.partition(":") for line in lines)}
    fix = "write a reference, as in 'Authorization: $env:TOKEN' or 'Authorization: Bearer ${env:TOKEN}'"
    secret = {str(place[0]) for place, _ in find_literals(pairs | {"url": url})}
    for name, text in pairs.items():
        is_literal = SECRET_SETTING.fullmatch(name) and "$" not in text
        secret |= {name} if is_literal or not name or not text or "$env:" in text[1:] else set()
    if secret:
        raise InvalidInput(Problem(f"{', '.join(sorted(secret))}: not fit for a file", fix, field="--header"))
    return pairs


def _describe(found: "Recognised") -> Iterator[str]:
    """Yield `chatEndpoint`, with what is read from the reply."""
    reply, queries = found.reply, {"answer": "by the protocol", **found.endpoint.get("response", {})}
    read: dict[str, Any] = {"contexts": reply.retrieved_contexts, "contextIds": reply.retrieved_context_ids}
    for key, value in found.endpoint.items():
        if key != "response":
            yield f"chatEndpoint.{key}: {value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)}"
    for key, query in queries.items():
        values = read.get(key) or [reply.response]
        yield f"chatEndpoint.response.{key}: {query} = {', '.join(map(excerpt, values[:_SHOWN_VALUES]))}"
