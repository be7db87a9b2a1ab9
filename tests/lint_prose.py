"""Check the project's text for words that it does not use, and suggest others. Run by `make lint`.

    python tests/lint_prose.py            the files of CHECKED
    python tests/lint_prose.py PATH …     these files and folders instead

Prints `file:line: 'told': write reported, printed, detected` for each hit, and exits with 1 if there is any.

It checks Markdown and YAML, and in Python modules the docstrings, comments and string literals. In Markdown it skips
inline code and blocks of language `text` or `json`, which quote the program. Public names of modules, classes and
functions may have no word of COINED.
"""

import ast
import io
import re
import sys
import tokenize
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[1]

CHECKED = (
    "README.md",
    "CONTRIBUTING.md",
    "CHANGELOG.md",
    "agent.yaml.example",
    "docs",
    "examples",
    "evalspec",
)
"""Files, and folders with all their files of the suffixes below."""

SUFFIXES = {".md", ".py", ".yaml"}

BANNED = {
    r"told|tells|do(?:es)? not tell|did not tell": "reported, printed, detected; of documents: says",
    r"anew|once more": "again",
    r"mend(?:s|ed|ing)?": "fix, repair",
    r"g(?:o|oes|oing|one|ing) on": "continue, resume",
    r"h(?:old|olds|eld|olding) (?:[\w'`-]+ ){0,4}against": "compare with, check against",
    r"held to": "compared with, checked against; as a noun: thresholds",
    r"stands? (?:twice|several times)": "is duplicated",
    r"stands? (?:in(?! for| the way| the place)|at|there|beside|below|above|between|under|before|after)": "is",
    r"lies? (?:in|at|there|beside|below|beyond|above|under|outside|inside|within)": "is, exceeds",
    r"com(?:es|e|ing)? (?:to nothing|out as|out at|of it)|what \w+ comes? to": "evaluates to, is",
    r"(?:can|could|may|to) be had": "is available",
    r"asked of": "sent to, queried",
    r"asking[s]|(?:an|one|each|every|same|of) asking": "attempt, request",
    r"sittings?": "session",
    r"strangers?(?:'s?)?": "untrusted, somebody else's",
    r"odd ones?|(?:what|that) is odd": "unmatched, unexpected, irregular",
    r"(?:there|where)(?:of|in|to|with|upon)": "a noun, in a sentence of its own",
    r"of which": "a sentence of its own",
    r"(?:what )?chance (?:explains|alone)": "noise",
    r"in silence": "silently",
    r"in vain": "without result",
    r"for ever": "without a time limit",
    r"b(?:ear|ears|ore|orne) out": "support",
    r"at the (?:most|least|best|worst)": "at most, at least, at best",
    r"keep(?:s|ing)? (?:\w+ ){0,2}apart|kept apart": "isolate, separate",
    r"waver(?:s|ed|ing)?": "vary",
    r"seldom": "rarely",
    r"outright": "explicitly",
    r"brings? (?:\w+ ){0,2}(?:along|with it)": "include",
    r"w(?:ins?|on) over": "overrides, takes precedence over",
    r"speaks? of": "mention, contain",
    r"(?:a|one) (?:line|text|object|document|row|request) a (?:line|sample|query|worker)": "per line, per sample",
}
"""Regular expression of a phrase (whole words, any case, any white space between) to what to write instead."""


COINED = {
    "bearing": "what it is: relevance, effect",
    "blamed": "failure_causes",
    "attribute_errors": "attribute_errors",
    "bury": "write_tombstone",
    "caretaker": "retention",
    "concerned": "affected",
    "desk": "case_queue, case_session",
    "doubts": "suspicious, doubtful, with a noun",
    "house": "retention",
    "intruder": "distractor",
    "luck": "chance",
    "peek": "probe",
    "room": "text_budget, min_width",
    "settling": "resolution_time, required_size",
    "sight": "viewer",
    "spell": "render",
    "squeeze": "remove_whitespace",
    "standing": "review_status",
    "steerless": "without_control_codes",
    "stranger": "unknown, with a noun",
    "stretch": "common_substring",
    "tell": "print, report, send",
    "thin": "sparse",
    "tidy": "purge_expired",
    "trouble": "failure",
}
"""Words that this project coined and the field does not use, to what public names say instead."""


class Allowed(NamedTuple):
    """A line that may have its words."""

    path: str
    words: str
    reason: str


ALLOWED = (
    Allowed("CONTRIBUTING.md", "nothing is dropped in silence", "until the section on formats is edited"),
    Allowed("CONTRIBUTING.md", "`corpus.py` (a text a line)", "until the section on formats is edited"),
    Allowed("docs/explanation/architecture.md", "holds runs against each other", "until that page is edited"),
)


class Hit(NamedTuple):
    """A banned phrase and where it is."""

    path: str
    line: int
    phrase: str
    instead: str

    def __str__(self) -> str:
        return f"{self.path}:{self.line}: '{self.phrase}': write {self.instead}"


_PATTERNS = {
    re.compile(rf"\b(?:{banned})\b".replace(" ", r"\s+"), re.IGNORECASE): instead for banned, instead in BANNED.items()
}
_CODE = "·"  # what is no prose becomes this, so that no phrase reaches over it
_FENCED = re.compile(r"^ *```(\w*).*?^ *```", re.MULTILINE | re.DOTALL)
_QUOTING = {"text", "json", "jsonl", "csv", "xml"}
_OPEN, _CLOSED = (
    {getattr(tokenize, name) for name in (f"FSTRING_{edge}", f"TSTRING_{edge}") if hasattr(tokenize, name)}
    for edge in ("START", "END")
)
Place = tuple[int, int]


def find_hits(text: str, path: str) -> Iterator[Hit]:
    """Return the banned phrases in the prose of a file, whose suffix says what is prose."""
    prose = keep_python_prose(text) if path.endswith(".py") else keep_markdown_prose(text)
    lines = text.split("\n")
    for pattern, instead in _PATTERNS.items():
        for match in pattern.finditer(prose):
            line = prose.count("\n", 0, match.start()) + 1
            if not any(one.path == path and one.words in lines[line - 1] for one in ALLOWED):
                yield Hit(path, line, " ".join(match[0].replace("#", " ").split()), instead)


def keep_markdown_prose(text: str) -> str:
    """Return the text with quoted blocks and inline code masked, of the same length."""
    text = _FENCED.sub(lambda block: _mask(block[0]) if block[1] in _QUOTING else block[0], text)
    text = re.sub(r"`[^`\n]+`|\]\([^)\s]*\)", lambda code: _mask(code[0]), text)
    return re.sub(r"^( *)[#>]", r"\1 ", text, flags=re.MULTILINE)


def keep_python_prose(source: str) -> str:
    """Return the source with all but comments and string literals masked, of the same length."""
    starts = [0]
    for line in source.split("\n"):
        starts.append(starts[-1] + len(line) + 1)
    prose = list(_mask(source.replace("\\\n", " \n")))
    for kind, *places in _list_texts(source):
        first, last = (starts[row - 1] + column for row, column in places)
        prose[first:last] = _text_of(kind, source[first:last])
    return "".join(prose)


def _list_texts(source: str) -> Iterator[tuple[int, Place, Place]]:
    """Yield type, start and end of comments and literals. An f-string is one literal, as before Python 3.12."""
    opened: list[Place] = []
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type in _OPEN:
            opened.append(token.start)
        elif token.type in _CLOSED:
            start = opened.pop()
            if not opened:
                yield tokenize.STRING, start, token.end
        elif token.type in (tokenize.COMMENT, tokenize.STRING) and not opened:
            yield token.type, token.start, token.end


def find_coined_names(source: str, path: str) -> Iterator[Hit]:
    """Return the public names of a module, its classes and functions that have a coined word, in singular or plural."""
    definitions = (ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    defined = [(node.name, node.lineno) for node in ast.walk(ast.parse(source)) if isinstance(node, definitions)]
    for name, line in [(Path(path).stem, 1), *defined]:
        for word in [] if name.startswith("_") else re.findall(r"[A-Z]?[a-z]+", name):
            instead = COINED.get(word.lower()) or COINED.get(word.lower().removesuffix("s").removesuffix("e"))
            if instead:
                yield Hit(path, line, name, instead)


def _text_of(kind: int, written: str) -> str:
    """A comment or literal without its sign, prefix, quotes and replacement fields."""
    if kind == tokenize.COMMENT:
        return written.replace("#", " ", 1)
    found = re.match(r"(\w*)(\"\"\"|'''|\"|'|)", written)
    prefix, quote = found.groups() if found else ("", "")
    if not quote:
        return written
    inner = written[len(prefix) + len(quote) : len(written) - len(quote)]
    if "f" in prefix.lower():
        inner = re.sub(r"\{[^{}]*\}", lambda field: _mask(field[0]), inner)
    inner = re.sub(r"\\n", "  ", inner)
    return " " * (len(prefix) + len(quote)) + inner + " " * len(quote)


def _mask(text: str) -> str:
    return re.sub(r"\S", _CODE, text)


def list_files(paths: Iterable[str]) -> Iterator[Path]:
    """Return the files to check below each path."""
    for path in map(ROOT.joinpath, paths):
        if path.is_dir():
            yield from (file for file in sorted(path.rglob("*")) if file.suffix in SUFFIXES and file.is_file())
        else:
            yield path


def main(paths: list[str]) -> int:
    """Print every hit, and return the exit code."""
    hits = []
    for file in list_files(paths or CHECKED):
        text, name = file.read_text(), name_of(file)
        hits += [*find_hits(text, name), *(find_coined_names(text, name) if file.suffix == ".py" else ())]
    for hit in sorted(hits):
        print(hit)
    return 1 if hits else 0


def name_of(file: Path) -> str:
    """Return the file's path from the root of the repository, if it is in there."""
    return file.relative_to(ROOT).as_posix() if file.is_relative_to(ROOT) else str(file)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
