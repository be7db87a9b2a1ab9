"""Ask on the terminal for the parts of a triple that are missing."""

import sys
from collections.abc import Mapping, Sequence
from typing import Any

import click

from evalspec.base.foreign_text import inert
from evalspec.cli.streams import notify

_SOURCES = click.Choice(["public", "customer", "synthetic"])


def can_ask() -> bool:
    """Return whether somebody can answer: input and messages are a terminal."""
    return sys.stdin.isatty() and sys.stderr.isatty()


def ask_missing(fields: Mapping[str, Any], known: Mapping[str, Any], candidates: Sequence[str] = ()) -> dict[str, Any]:
    """Return the fields of a triple, completed by questions on the terminal. An empty answer leaves out what can be.

    `fields`: given as options. `known`: the triple as far as it is known otherwise. `candidates`: ids of blocks.

    Raises:
        click.Abort: The person ends the input.
    """
    answers = dict(fields)
    metadata = known.get("metadata", {})
    if not fields.get("question") and "question" not in known:
        answers["question"] = _ask("Question")
    if not fields.get("blocks") and "expected_block" not in known:
        answers["blocks"] = _ask_blocks(candidates)
    if not fields.get("answer") and "expected_answer" not in known:
        answers["answer"] = _ask("Right answer (empty: none)", default="") or None
    given = [pair.partition("=")[0] for pair in fields.get("metadata", ())] + list(metadata)
    if not fields.get("source") and "source" not in given:
        answers["source"] = _ask("Source", type=_SOURCES)
    missing = [key for key in ("domain", "difficulty") if key not in given]
    if answers.get("source") == "customer" and "customer" not in given:
        missing.insert(0, "customer")
    asked = ((key, _ask(f"{key.capitalize()} (empty: none)", default="")) for key in missing)
    answers["metadata"] = [*fields.get("metadata", ()), *(f"{key}={value}" for key, value in asked if value)]
    return answers


def _ask_blocks(candidates: Sequence[str]) -> list[str]:
    """Return the ids of the blocks, at least one. A number chooses a candidate."""
    for place, name in enumerate(candidates, 1):
        notify(f"  {place}  {inert(name)}")
    blocks: list[str] = []
    while True:
        label = "Block" if not blocks else "Another block that is needed (empty: none)"
        typed = _ask(label) if not blocks else _ask(label, default="")
        if not typed:
            return blocks
        is_choice = typed.isdecimal() and 0 < int(typed) <= len(candidates)
        blocks.append(candidates[int(typed) - 1] if is_choice else typed)


def _ask(label: str, **settings: Any) -> str:
    answer: str = click.prompt(label, err=True, show_default=bool(settings.get("default")), **settings)
    return answer.strip()
