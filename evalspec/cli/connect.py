"""`evalspec connect`: write the manifest of an agent behind HTTP, after asking it a question."""

from pathlib import Path
from typing import Any, cast

import click

from evalspec.base.errors import InvalidInput, Problem
from evalspec.cli.connecting import connect_options
from evalspec.cli.options import field_option, option
from evalspec.cli.ordered_command import OrderedCommand
from evalspec.cli.streams import can_prompt


@click.command("connect", cls=OrderedCommand)
@click.argument("url")
@option(
    "--data", type=click.Path(path_type=Path), metavar="FILE", help="Your questions and right answers: CSV and others."
)
@field_option
@connect_options
@click.pass_context
def command(ctx: click.Context, /, url: str, **given: Any) -> Any:
    """Ask the agent at URL one question, find out how it takes and answers it, and write agent.yaml.

    URL is the agent's base, or the full address that takes questions, by POST or GET. A path that ends in /v1 or /api
    is a base. The question is tried in the usual forms, as an OpenAPI document of the service says, and with the keys
    that its errors name, until one is answered: chat completions, OpenAI's responses, Anthropic, Ollama, LangServe, and
    JSON with one key. A second question proves the result. At most 12 requests are sent, each is printed, and nothing
    is sent but your own questions. The command stops at 401, 403 and 429. An existing agent.yaml is never overwritten.

    \b
    Examples:
      evalspec connect http://localhost:4000 --data questions.csv
      evalspec connect http://localhost:4000/ask --question "Who pays?" --yes
      evalspec connect https://bot.example --header 'Authorization: $env:TOKEN'
    """
    if Path("agent.yaml").exists():
        fix = "connect never overwrites it; move it away, or work in another folder"
        raise InvalidInput(Problem("already exists", fix, "agent.yaml"))
    if given["data"] is None and not given["questions"] and not can_prompt():
        raise click.UsageError("there is no question to send; pass --data FILE or --question TEXT", ctx)
    init = cast(click.Group, ctx.find_root().command).get_command(ctx, "init")
    return ctx.invoke(
        cast(click.Command, init), directory=Path(), url=url, agent=None, force=False, only_new=True, **given
    )
