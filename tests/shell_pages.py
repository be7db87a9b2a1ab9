"""Pages of the documents as a reader follows them: their blocks in order, in one folder and one terminal.

A page that takes nothing for granted runs as it is. The tables in tests/pages have what the others need, as a `Page`.
tests/pages/test_every_block.py holds that each block is run or checked by a test, or has an `Exemption`.
"""

import contextlib
import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import tomllib
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cache
from itertools import dropwhile, groupby
from pathlib import Path
from typing import Any, NamedTuple

import click
import pytest
from markdown_it import MarkdownIt

from evalspec.cli.main import group
from gold.terminal import Terminal
from servers.faulty_agent import FaultyAgent, status
from servers.ports import find_free_port
from servers.scripted_judge import ScriptedJudge
from servers.scripted_judge import status as judge_status

ROOT = Path(__file__).parents[1]
DOCUMENTS = [
    *sorted(ROOT.glob("*.md")),
    *(
        page
        for name in ("benchmarks", "docs", "evalspec", "examples")
        for page in sorted((ROOT / name).rglob("*.md"))
        if "generated/metrics" not in page.as_posix()  # written by `make docs`
    ),
]
_FILE = re.compile(r"# (\w+\.py)\b.*\n")
_LANGUAGES = {"bash": "sh", "shell": "sh", "console": "sh", "py": "python", "yml": "yaml"}
"""Other names of the languages whose blocks run."""
_NUMBER = r"(?:\\\+|[−±])?\d(?:\\\.|[\d,])*"
_RUN_OR_NUMBER = re.compile(
    r"(?P<run>\d{8}T\d{6}(\\\.\d+)?Z\\-[0-9a-f]{8})"
    rf"|(?P<time>{_NUMBER}(?=\\ ms)|(?<=latency_p95\\ ){_NUMBER})|{_NUMBER}"
)
"""The id of a run, a time or another number, in the pattern of a line."""
_ANY_RUN = r"\d{8}T\d{6}(\.\d+)?Z-[0-9a-f]{8}"
_ANY_NUMBER = r"[+−±]?\d[\d.,]*"

_ADDRESSES = {
    "http://localhost:4000": "AGENT",
    "http://localhost:4001": "AGENT",
    "http://localhost:4002": "AGENT",
    "http://localhost:4003": "AGENT",
    "http://127.0.0.1:4000": "AGENT",
    "http://localhost:8000": "AGENT",
    "http://localhost:8932": "STORE",
    "localhost:8917": "LOCAL",
    "https://evals.example.com": "SERVICE",
    "http://localhost:8321": "SERVICE",
    "http://127.0.0.1:8321": "SERVICE",
    "localhost:8321": "SERVICE",
}
"""Addresses that pages have, and the variable with the address of the stand-in that is used instead."""
_ADDRESS = re.compile(rf"(?:{'|'.join(map(re.escape, _ADDRESSES))})(?!\d)")
"""One of them, and no longer port: manifests are filled again and again, and a stand-in may have port 40003."""
_OWN_PORTS = re.compile(r"\b(8917|8918|8921|8923)\b")
"""Ports on which manifests of this repository start an agent. A free one is used instead."""

_PROGRAMS = {
    "evalspec": """\
case "$1" in serve|worker)
    "$PYTHON" -m evalspec "$@" >> ../service.log 2>&1 &
    echo $! >> ../processes
    until curl --output ../ready "localhost:$EVALSPEC_PORT/readyz" 2> ../unready; do
        kill -0 $! 2> ../unready || { cat ../service.log; exit 1; }
        sleep 0.1
    done
    exit
esac
exec "$PYTHON" -m evalspec "$@"
""",
    "python": 'exec "$PYTHON" "$@"\n',
    "pip": f'[ "$1" = install ] && exec "$PYTHON" "{__file__}" "$2"\n',
}
"""A server stays in the foreground, and a reader opens another terminal. Here it goes on in the background."""
_SETTINGS = {
    ".curlrc": "fail-with-body\nsilent\nshow-error\nmax-time = 300\n",
    ".gitconfig": "[user]\n  name = ada\n  email = ada@example.com\n",
}


class Exemption(NamedTuple):
    """A block that does not run here, and the reason. `said`: what its failure prints; None: it is not tried."""

    page: str
    language: str
    number: int
    reason: str
    said: str | None


EXEMPTIONS = [
    Exemption("docs/adr/0022-a-metric-is-a-function.md", "python", 2, "code for another package", "ir_measures"),
    Exemption("docs/adr/0022-a-metric-is-a-function.md", "python", 3, "code for another package", "pydantic_evals"),
    Exemption("docs/reference/service.md", "sh", 2, "needs a PostgreSQL server named db", None),
    Exemption("docs/reference/service.md", "sh", 10, "needs a PostgreSQL server", "pg_dump"),
    Exemption("benchmarks/README.md", "sh", 1, "takes hours", None),
    Exemption("benchmarks/README.md", "sh", 2, "takes hours", None),
    Exemption("benchmarks/README.md", "sh", 3, "takes minutes", None),
    Exemption("docs/explanation/architecture.md", "text", 1, "a drawing", None),
    Exemption("docs/explanation/judge-correction.md", "text", 1, "a drawing", None),
    Exemption("docs/explanation/judge-correction.md", "text", 2, "tests/labels/test_corrected_run.py does this", None),
    Exemption("docs/explanation/retrievers.md", "text", 1, "needs the data of Cranfield, a download", None),
    Exemption("docs/explanation/statuses.md", "indented", 1, "a formula", None),
    Exemption("docs/how-to/budgets.md", "text", 1, "tests/cli/test_budget.py runs with these limits", None),
    Exemption("docs/how-to/budgets.md", "text", 2, "tests/cli/test_budget.py resumes with higher limits", None),
    Exemption("docs/how-to/budgets.md", "text", 3, "tests/cli/test_budget.py runs with this option", None),
    Exemption("docs/how-to/judges.md", "text", 3, "tests/cli/test_batch.py runs rounds of batches", None),
    Exemption("docs/how-to/judges.md", "text", 1, "tests/cli/test_judge_models.py runs these commands", None),
    Exemption("docs/reference/runs.md", "text", 4, "tests/cli/test_command_code.py reads the line", None),
    Exemption("docs/how-to/retrievers.md", "text", 5, "needs the data of Cranfield, a download", None),
    Exemption("docs/reference/metrics.md", "text", 1, "tests/cli/test_passes.py prints it", None),
    Exemption("docs/reference/reports.md", "text", 4, "tests/cli/test_transcripts.py prints such lines", None),
    Exemption("docs/reference/gold-reference.md", "text", 1, "a drawing of folders", None),
    Exemption("docs/reference/gold-reference.md", "text", 2, "a drawing", None),
]
"""Blocks that are neither run nor checked as the others of their language."""


class Page(NamedTuple):
    """What a page takes for granted."""

    files: Mapping[str, str] = {}
    """By a path of the reader's: the file or folder of this repository that is there."""
    before: str = ""
    """What the reader did earlier."""
    filled: Mapping[str, str] = {}
    """What the reader writes instead of a text that the page cannot know."""
    stand_ins: tuple[str, ...] = ()
    """Of STAND_INS."""
    variables: Mapping[str, str] = {}
    keys: tuple[tuple[str, str], ...] = ()
    """What is pressed in the session that the page shows, and the text that follows."""
    is_printed: bool = False
    """Whether a block of text right after commands is what they print here. After a session, every block of text is."""
    prints: Mapping[int, str] = {}
    """By number of a block of text that the page's own commands do not print: commands that do, with any exit code."""
    other_numbers: tuple[int, ...] = ()
    """The blocks of text whose numbers are those of another run, so that only the words are compared."""
    has_manifest: bool = False
    """Whether a whole manifest on the page is agent.yaml from then on."""
    python: str = ""
    """The test that runs the Python of the page, if it is more than a script."""


SHOWN = Page(is_printed=True)
SHOP = {".": "tests/pages/shop"}
SQUARES = {"../squares": "tests/pages/squares"}
GOLD_SET = """\
evalspec gold init evals/gold/help --person ada --person ben --person cleo
evalspec gold add refund --question "When?" --block refunds --answer "In 14 days." --source public --as ada
"""


class Block(NamedTuple):
    """A block of code: `number` counts the blocks of its language on the page, from 1; `line` is its first one."""

    language: str
    number: int
    code: str
    line: int


def name_page(page: Path) -> str:
    """Return its path in the repository."""
    return str(page.relative_to(ROOT))


@cache
def read_blocks(page: Path) -> list[Block]:
    """Return the blocks of a page as GitHub sees them. The language of an indented block is `indented`."""
    found, counts = [], dict[str, int]()
    for token in MarkdownIt("commonmark").parse(page.read_text(encoding="utf-8")):
        if token.type not in ("fence", "code_block") or token.map is None:
            continue
        name = token.info.partition(" ")[0] if token.type == "fence" else "indented"
        language = _LANGUAGES.get(name, name)
        counts[language] = counts.get(language, 0) + 1
        found.append(Block(language, counts[language], token.content, token.map[0] + 1))
    return found


def list_pages(table: Mapping[str, Page], is_listed: Callable[[str], bool]) -> list[Any]:
    """Return the parameters of a test that runs pages: each document of these names with a block that runs."""
    pages = {name_page(page): page for page in DOCUMENTS}
    names = [name for name in pages if is_listed(name) and (name in table or has_commands(pages[name]))]
    assert table.keys() <= set(names), f"no such pages: {table.keys() - set(names)}"
    return [pytest.param(pages[name], table.get(name, Page()), id=name) for name in names]


def has_commands(page: Path) -> bool:
    """Whether a block of the page runs."""
    return bool({"sh", "python"} & {block.language for block in read_blocks(page)})


def list_compared(blocks: Iterable[Block], needs: Page) -> set[int]:
    """Return the numbers of the blocks of text that are compared with what commands print."""
    found, follows = set[int](), False
    for block in blocks:
        if block.language == "sh":
            follows = True
        elif block.language == "text":
            is_shown = needs.is_printed and (follows or block.code.startswith("$ evalspec "))
            if is_shown or block.number in needs.prints:
                found.add(block.number)
            follows = follows and bool(needs.keys)
    return found


def name_file(code: str) -> str | None:
    """Return the name of the file that a Python block shows: `# bot.py` in its first line."""
    found = _FILE.match(code)
    return found[1] if found else None


def _answer(body: Any) -> dict[str, Any]:
    """The reply of the shop's agent, which knows its dataset."""
    lines = (ROOT / "tests" / "pages" / "shop" / "evals" / "rag.jsonl").read_text(encoding="utf-8").splitlines()
    known = {sample["input"]: sample for sample in map(json.loads, lines)}
    found = known.get(body.get("message"), {"expected": "Paris", "id": "paris"})
    hits = [{"id": found["id"], "text": found["expected"]}]
    return {"response": found["expected"], "contexts": hits, "hits": hits}


@contextlib.contextmanager
def _run_agent() -> Iterator[dict[str, str]]:
    with FaultyAgent() as server:
        server.reply = _answer
        yield {"AGENT": server.url}


@contextlib.contextmanager
def _run_judge() -> Iterator[dict[str, str]]:
    with ScriptedJudge() as server:
        yield {"OPENAI_BASE_URL": server.url, "OPENAI_API_KEY": "none"}


@contextlib.contextmanager
def _run_judge_without_models() -> Iterator[dict[str, str]]:
    with ScriptedJudge() as server:
        server.mode = judge_status(404, message="The model `gpt-4o-mini` does not exist")
        yield {"OPENAI_BASE_URL": server.url, "OPENAI_API_KEY": "none"}


@contextlib.contextmanager
def _run_full_store() -> Iterator[dict[str, str]]:
    """A store that deletes, ingests once, and then has a full disk."""
    with FaultyAgent() as server:
        server.script = ["ok", "ok"]
        server.mode = status(500, body="disk full")
        yield {"STORE": server.url}


STAND_INS = {
    "agent": _run_agent,
    "judge": _run_judge,
    "judge without models": _run_judge_without_models,
    "full store": _run_full_store,
}
"""Servers, which yield the variables by which they are found."""


class Reader:
    """Somebody with a terminal in `folder`/project. Variables of the shell and names of Python stay."""

    def __init__(self, folder: Path) -> None:
        self.project, self._folder = folder / "project", folder
        self._names: dict[str, Any] = {"__name__": "page"}
        self.project.mkdir()
        (folder / "bin").mkdir()
        for name, script in _PROGRAMS.items():
            program = folder / "bin" / name
            program.write_text(f"#!/bin/sh\n{script}", encoding="utf-8")
            program.chmod(0o755)
        for name, text in _SETTINGS.items():
            (folder / name).write_text(text, encoding="utf-8")
        path = f"{folder / 'bin'}{os.pathsep}{os.environ['PATH']}"
        self._environment = {"PATH": path, "PYTHON": sys.executable, "HOME": str(folder), "CURL_HOME": str(folder)}

    def shell(self, script: str) -> subprocess.CompletedProcess[str]:
        """Run a script with `sh -e` in the project."""
        variables = self._folder / "variables"
        before = f". {variables}\n" if variables.exists() else ""
        return subprocess.run(
            ["sh", "-eac", f"{before}{script}\nexport -p > {variables}"],
            cwd=self.project,
            env=os.environ | self._environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )

    def python(self, code: str) -> None:
        """Run a block of Python: a script with the names of those before it, or tests."""
        if name := name_file(code):
            (self.project / name).write_text(code, encoding="utf-8")
        if "def test_" in code:
            (self.project / "test_page.py").write_text(code, encoding="utf-8")
            done = self.shell("python -m pytest -p no:cacheprovider -q test_page.py")
            assert done.returncode == 0, done.stdout
            return
        with contextlib.chdir(self.project), _own_modules(self.project):
            exec(compile(code, "a block of the page", "exec"), self._names)

    def use_terminal(self, arguments: Iterable[str], keys: Iterable[tuple[str, str]]) -> tuple[str, str]:
        """Press keys in a session of `evalspec`, and return its first screen and all that it prints."""
        with Terminal(self.project, *arguments, NO_COLOR="1") as terminal:
            screen = terminal.expect("[q] quit")
            for pressed, expected in keys:
                terminal.act(pressed, expected)
            assert terminal.end()[0] == 0
            return screen, terminal.output

    def move_ports(self, move: Callable[[str], str]) -> None:
        """Change the addresses in the reader's manifests."""
        for manifest in (*self.project.rglob("*.yaml"), *self.project.glob("*.example")):
            text = manifest.read_text(encoding="utf-8")
            if (moved := move(text)) != text:
                manifest.write_text(moved, encoding="utf-8")

    def __enter__(self) -> "Reader":
        return self

    def __exit__(self, *_exception: object) -> None:
        """End the servers that the page started."""
        started = self._folder / "processes"
        for process in started.read_text().split() if started.exists() else ():
            with contextlib.suppress(ProcessLookupError):
                os.kill(int(process), signal.SIGTERM)


@contextlib.contextmanager
def _own_modules(folder: Path) -> Iterator[None]:
    """Let a folder's modules be found, and forget them afterwards."""
    before = set(sys.modules)
    sys.path.insert(0, str(folder))
    try:
        yield
    finally:
        sys.path.remove(str(folder))
        for name in set(sys.modules) - before:
            if str(getattr(sys.modules[name], "__file__", "") or "").startswith(str(folder)):
                del sys.modules[name]


def fill_addresses(code: str, variables: Mapping[str, str]) -> str:
    """Return the text with the addresses of the stand-ins that `variables` name."""
    return _ADDRESS.sub(lambda found: variables.get(_ADDRESSES[found[0]], found[0]), code)


class _Following:
    """A page that a reader follows. `printed` is what the command before printed, until the page has shown it."""

    def __init__(self, name: str, page: Page, reader: Reader) -> None:
        self.name, self.page, self.reader = name, page, reader
        self.printed: str | None = None

    def fill(self, code: str) -> str:
        for text, by in self.page.filled.items():
            code = code.replace(text, by)
        return fill_addresses(code, os.environ)

    def move(self, manifest: str) -> str:
        return _OWN_PORTS.sub(os.environ["EVALSPEC_PORT"], self.fill(manifest))

    def prepare(self) -> None:
        for target, source in self.page.files.items():
            _copy(ROOT / source, self.reader.project / target)
        self.reader.move_ports(self.move)
        before = self.reader.shell(self.page.before)
        assert before.returncode == 0, before.stdout
        self.reader.move_ports(self.move)

    def sh(self, block: Block) -> None:
        exemption = find_exemption(self.name, block)
        if exemption and exemption.said is None:
            check_commands(block.code)
            return
        done = self.reader.shell(self.fill(block.code))
        self.printed = done.stdout
        if exemption:
            said = exemption.said and exemption.said in done.stdout
            assert done.returncode != 0 and said, f"no exemption needed: {done.stdout}"
        else:
            assert done.returncode == 0, f"{block.code}\n{done.stdout}"
        self.reader.move_ports(self.move)

    def python(self, block: Block) -> None:
        exemption = find_exemption(self.name, block)
        if exemption:
            with pytest.raises(ImportError, match=exemption.said):
                self.reader.python(block.code)
        elif not self.page.python:
            self.reader.python(self.fill(block.code))

    def yaml(self, block: Block) -> None:
        if self.page.has_manifest and block.code.startswith("apiVersion:"):
            (self.reader.project / "agent.yaml").write_text(self.move(block.code), encoding="utf-8")

    def text(self, block: Block) -> None:
        shown = os.path.expandvars(self.fill(block.code))
        if block.number in self.page.prints:
            self.printed = self.reader.shell(self.fill(self.page.prints[block.number])).stdout
            shown = shown.partition("\n")[2] if shown.startswith("$ ") else shown
        elif shown.startswith("$ evalspec "):
            command, shown = shown.split("\n", 1)
            screen, self.printed = self.reader.use_terminal(command.split()[2:], self.page.keys)
            assert len(squeeze(shown)) == len(squeeze(screen)), f"the screen is:\n{screen}"
        missing = find_missing(shown, self.printed or "", other_numbers=block.number in self.page.other_numbers)
        assert missing == [], f"the page shows {missing}\nprinted:\n{self.printed}"
        if not self.page.keys:
            self.printed = None


def run_page(page: Path, needs: Page, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Run the blocks of a page in their order."""
    name, blocks = name_page(page), read_blocks(page)
    unknown = [text for text in needs.filled if not any(text in block.code for block in blocks)]
    assert unknown == [], f"the page does not have {unknown}"
    with contextlib.ExitStack() as stack:
        port = str(find_free_port())
        variables = {
            "COLUMNS": "100",
            "EVALSPEC_PORT": port,
            "LOCAL": f"localhost:{port}",
            "SERVICE": f"http://127.0.0.1:{port}",
            **needs.variables,
        }
        for stand_in in needs.stand_ins:
            variables |= stack.enter_context(STAND_INS[stand_in]())
        for variable, value in variables.items():
            monkeypatch.setenv(variable, value)
        following = _Following(name, needs, stack.enter_context(Reader(folder)))
        following.prepare()
        compared = list_compared(blocks, needs)
        for block in blocks:
            if block.language in ("sh", "python", "yaml") or (block.language == "text" and block.number in compared):
                getattr(following, block.language)(block)


def find_exemption(name: str, block: Block) -> Exemption | None:
    """Return the exemption of a block, if it has one."""
    place = (name, block.language, block.number)
    return next((exemption for exemption in EXEMPTIONS if exemption[:3] == place), None)


def _copy(source: Path, target: Path) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    if source.is_dir():
        shutil.copytree(source, target, dirs_exist_ok=True, ignore=shutil.ignore_patterns("__pycache__"))
    else:
        shutil.copy(source, target)


def squeeze(text: str) -> list[str]:
    """The lines of a text, with single blanks between words, and rules of one length."""
    return [re.sub("[─_-]{2,}", "---", " ".join(line.split())) for line in text.splitlines() if line.strip()]


def find_missing(shown: str, printed: str, *, other_numbers: bool = False) -> list[str]:
    """The shown lines that were not printed in this order.

    In a shown line, … stands for any text, the id of a run for any id, and a time for any time. With `other_numbers`, a
    number stands for any number.
    """
    lines = iter(squeeze(printed))
    patterns = {line: _to_pattern(line, other_numbers) for line in squeeze(shown)}
    return [line for line in squeeze(shown) if not any(patterns[line].fullmatch(other) for other in lines)]


def _to_pattern(line: str, other_numbers: bool) -> re.Pattern[str]:
    def widen(found: re.Match[str]) -> str:
        return _ANY_RUN if found["run"] else _ANY_NUMBER if found["time"] or other_numbers else found[0]

    return re.compile(_RUN_OR_NUMBER.sub(widen, re.escape(line)).replace("…", ".*"))


def check_commands(script: str) -> None:
    """Without running them: evalspec has the commands and options of a script, and the repository its files."""
    files = re.findall(r"(?<!/)\b(?:benchmarks|evalspec|tests)/[\w/]+\.(?:py|sh)\b", script)
    missing = [file for file in files if not (ROOT / file).exists()]
    assert missing == [], f"no such files: {missing}"
    for line in script.replace("\\\n", "").splitlines():
        for words in split_commands(line):
            _check_command(words)


def split_commands(line: str) -> Iterator[list[str]]:
    """The arguments of each `evalspec` in a line of a script."""
    if "evalspec " not in line:
        return
    lexer = shlex.shlex(line, posix=True, punctuation_chars=True)
    lexer.whitespace_split = True
    try:
        found = list(lexer)
    except ValueError:  # the beginning of a text of several lines
        assert not line.lstrip().startswith("evalspec "), line
        return
    for is_sign, words in groupby(found, lambda word: set(word) <= set("&|;<>()")):
        command = list(dropwhile(lambda word: re.match(r"\w+=|\$$", word), words))
        if not is_sign and command[:1] == ["evalspec"]:
            yield command[1:]


def _check_command(words: list[str]) -> None:
    command: click.Command | None = group
    context = click.Context(group)
    while isinstance(command, click.Group) and words:
        name, *words = words
        command = command.get_command(context, name)
        assert command, f"evalspec has no command {name}"
        context = click.Context(command, parent=context)
    assert command
    if not isinstance(command, click.Group):
        given, *_ = command.make_parser(context).parse_args(list(words))
        for parameter in command.params:
            _check_choice(parameter, given.get(parameter.name or ""))


def _check_choice(parameter: click.Parameter, given: Any) -> None:
    values = given if isinstance(given, list | tuple) else (given,)
    for value in values if isinstance(parameter.type, click.Choice) else ():
        if isinstance(value, str) and not value.isupper():
            parameter.type.convert(value, parameter, None)


def check_requirement(requirement: str) -> None:
    """What `pip install` would find of this project: its name, or this folder, and its extras."""
    name, _, extras = requirement.rstrip("]").partition("[")
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert name in (".", project["name"]), requirement
    assert set(filter(None, extras.split(","))) <= project["optional-dependencies"].keys(), requirement


if __name__ == "__main__":
    check_requirement(sys.argv[1])
