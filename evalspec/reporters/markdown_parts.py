"""Parts of Markdown as GitHub reads it: foreign text as code, tables, what is folded away."""

from collections.abc import Iterable, Sequence

from evalspec.foreign_text import cut, inert

_LONGEST = 80


def code(text: str, limit: int = _LONGEST) -> str:
    """Foreign text as a code span on one line, cut to `limit` characters."""
    flat = cut(inert(text), limit)
    if not flat:
        return "(empty)"
    longest = max(map(len, "".join(c if c == "`" else " " for c in flat).split()), default=0)
    fence = "`" * (longest + 1)
    margin = " " if flat.startswith("`") or flat.endswith("`") else ""
    return f"{fence}{margin}{flat}{margin}{fence}"


def cell(text: str, limit: int = _LONGEST) -> str:
    """The same for the cell of a table, where a pipe ends a code span too."""
    return code(text, limit).replace("|", "\\|")


def table(header: Sequence[str], rows: Iterable[Sequence[str]], most: int) -> str:
    """A table of cells that are Markdown already. A colon after a heading aligns its column to the right."""
    found = list(rows)
    lines = [
        [title.removesuffix(":") for title in header],
        ["---:" if title.endswith(":") else "---" for title in header],
        *found[:most],
    ]
    text = "".join(f"| {' | '.join(line)} |\n" for line in lines)
    return f"{text}\n" + (f"… and {len(found) - most:,} more rows\n\n" if len(found) > most else "")


def folded(title: str, text: str) -> str:
    """Markdown that is shown when its title is clicked. Both are ours: nothing foreign outside of code spans."""
    return f"<details><summary>{title}</summary>\n\n{text}</details>\n\n"
