"""The shape of the package: floors, sizes, and what start-up may not import."""

import ast
import re
import subprocess
import sys
import tokenize
import tomllib
from collections import Counter, defaultdict
from functools import cache
from graphlib import TopologicalSorter
from io import StringIO
from pathlib import Path
from statistics import median

import pytest

import evalspec

PACKAGE = Path(evalspec.__file__).parent
ROOMS = (
    *("base", "model", "inputs", "targets", "scoring", "verdict", "runs"),
    *("reports", "curation", "api", "service", "cli", "pytest_plugin"),
)
"""From the bottom to the top."""
FOREIGN_NAME = re.compile(r"unrag|autorag|mixpeek|(?<![a-z])(?:beir|trec(?!_eval))(?![a-z])", re.I)
NAMES_OUTSIDE_FORMATS = {
    # Only AutoRAG has a flat list that can mean two things, and the option says which is meant.
    "cli/options.py": ["AutoRAG: whether a flat list requires"],
    "cli/convert.py": ["collection --to trec"],
    "inputs/manifest/dataset_schema.py": ["AutoRAG: whether a flat list of ids means all of them, or any."],
    # Help and messages say which files are read.
    "cli/compare.py": ["or a report of Unrag or AgentSpec."],
    "inputs/datasets/located.py": ["JSONL, judgements of TREC and BEIR"],
    # Qrels and runs are the forms of trec_eval, the standard whose work `score` does, and have to be quick to import.
    "cli/score.py": ["TREC or BEIR judgements", "a TREC run"],
    "api/public.py": ["TREC or BEIR judgements", "A TREC run"],
    "api/scoring.py": ["TREC's or BEIR's"],
    "targets/agents/replay.py": ["a TREC run"],
    "scoring/ranking/run_files.py": ["a TREC run"],
    "model/conventions.py": ["the maximum in TREC qrels"],
    # Posted datasets have this format, and the API's documentation says whose formulas `compat` means.
    "service/posted_datasets.py": ['DATASET_FORMAT = "mixpeek"'],
    "service/evaluations_api.py": ["`mixpeek`: F1 and F2 of the mean precision"],
}
"""Where a module outside `formats` says the name of another system, and why. ranking_files.py is left out."""
MODULES = sorted(PACKAGE.rglob("*.py"))
HEAVY = {"ragas", "numpy", "httpx", "openai", "rich", "sacrebleu", "rapidfuzz", "wordllama", "tenacity", "pyarrow"} | {
    "bm25s",
    "qdrant_client",
    "Stemmer",
    "detect_secrets",
    "phonenumbers",
    "fastapi",
    "sqlalchemy",
    "alembic",
    "uvicorn",
    "jinja2",
}


@cache
def parse(module: Path) -> ast.Module:
    """The tree of a module, which nothing changes."""
    return ast.parse(module.read_text())


def place(module: Path) -> tuple[str, ...]:
    """The parts of a module's name below `evalspec`: its room, perhaps a package in it, its own name."""
    return module.relative_to(PACKAGE).with_suffix("").parts


@cache
def imported(module: Path) -> set[tuple[str, ...]]:
    """The places of the modules that a module imports, at its top or in a function."""
    names = set()
    for node in ast.walk(parse(module)):
        if isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{module}: relative import"
            names |= {f"{node.module}.{alias.name}" for alias in node.names}
        elif isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
    return {tuple(name.split(".")[1:]) for name in names if name.startswith("evalspec.")}


def test_rooms_import_only_what_is_below_them():
    above = {
        (own[0], other[0]): module
        for module in MODULES
        if len(own := place(module)) > 1
        for other in imported(module)
        if other[0] in ROOMS and ROOMS.index(other[0]) > ROOMS.index(own[0])
    }
    assert not above
    assert {place(module)[0] for module in MODULES} - set(ROOMS) == {"__init__", "__main__"}


@pytest.mark.parametrize("room", ROOMS)
def test_packages_of_a_room_do_not_import_each_other_in_a_circle(room):
    packages = {path.name for path in (PACKAGE / room).iterdir() if (path / "__init__.py").is_file()}
    imports = {name: set() for name in packages}
    for module in MODULES:
        own = place(module)
        if own[0] == room and own[1] in packages:
            imports[own[1]] |= {other[1] for other in imported(module) if other[0] == room and len(other) > 2}
    order = TopologicalSorter({name: (found & packages) - {name} for name, found in imports.items()})
    assert set(order.static_order()) == packages


def test_the_page_on_architecture_names_the_rooms_and_none_outgrows_its_budget():
    page = (Path(__file__).parents[1] / "docs" / "explanation" / "architecture.md").read_text()
    budgets = dict(re.findall(r"^\| `(\w+)/` \| [^|]+ \| ([\d,]+) \|$", page, flags=re.M))
    assert [*budgets] == [*reversed(ROOMS)]
    grown = {room: lines for room, lines in count_lines().items() if lines > 1.05 * int(budgets[room].replace(",", ""))}
    assert not grown, "take out what became superfluous, or raise the budget and say in the commit what the room gained"


NO_CODE = (tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER)


def count_lines() -> Counter[str]:
    """Lines of code by room, without blank lines, comments, docstrings and imports."""
    lines = Counter()
    for module in MODULES:
        text = module.read_text()
        tree = parse(module)
        left_out = set()
        for node in ast.walk(tree):
            is_text = (
                isinstance(node, ast.Expr)
                and isinstance(node.value, ast.Constant)
                and isinstance(node.value.value, str)
            )
            if isinstance(node, ast.stmt) and (is_text or isinstance(node, ast.Import | ast.ImportFrom)):
                left_out |= {*range(node.lineno, node.end_lineno + 1)}
        tokens = (token for token in tokenize.generate_tokens(StringIO(text).readline) if token.type not in NO_CODE)
        written = {line for token in tokens for line in range(token.start[0], token.end[0] + 1)}
        lines[place(module)[0]] += len(written - left_out)
    return Counter({room: count for room, count in lines.items() if room in ROOMS})


def test_nothing_imports_a_format():
    """The registry finds them, so nothing else needs to name a system."""
    importing = {place(module)[:2] for module in MODULES if any("formats" in other for other in imported(module))}
    assert importing == {("inputs", "formats")}


def test_only_formats_name_other_systems():
    found = {}
    for module in MODULES:
        name = module.relative_to(PACKAGE).as_posix()
        text = module.read_text()
        for phrase in NAMES_OUTSIDE_FORMATS.get(name, ()):
            assert phrase in text, f"{name}: an exception that is no longer needed"
            text = text.replace(phrase, "")
        if "formats" not in place(module) and name != "inputs/ranking_files.py":
            found |= {name: names} if (names := FOREIGN_NAME.findall(text)) else {}
    assert not found


def test_modules_are_small():
    sizes = {module: len(module.read_text().splitlines()) for module in MODULES}
    assert max(sizes.values()) <= 400, max(sizes, key=sizes.get)
    assert median(sizes.values()) <= 150


def test_a_class_name_means_one_thing():
    places = defaultdict(list)
    for module in MODULES:
        for node in ast.walk(parse(module)):
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                places[node.name].append(f"{module.relative_to(PACKAGE)}:{node.lineno}")
    assert not {name: found for name, found in places.items() if len(found) > 1}


MOST_WITH_ONE_IMPORTER = 60
"""Modules that only one other imports, without those that a table or a registry lists."""


def test_few_modules_have_exactly_one_importer():
    """Two modules that are one thought are one module."""
    known = {place(module) for module in MODULES}
    importers = defaultdict(set)
    for module in MODULES:
        for name in imported(module):
            importers[name if name in known else name[:-1]].add(module)
    single = sorted(".".join(name) for name in known if name[-1] != "__init__" and len(importers[name]) == 1)
    assert len(single) <= MOST_WITH_ONE_IMPORTER, single


def test_no_junk_drawers():
    assert not {"utils", "helpers", "common", "manager"} & {part for m in MODULES for part in (*m.parts, m.stem)}


def modules_after(*arguments: str) -> set[str]:
    """Names of the modules that a command line leaves imported."""
    program = (
        "import sys; from evalspec.__main__ import main; sys.argv[1:] = sys.argv[1:]; main(); "
        "print(chr(10).join(sys.modules), file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", program, *arguments], capture_output=True, text=True, check=True)
    return set(done.stderr.splitlines())


@pytest.mark.parametrize(
    "arguments",
    [["--version"], ["--help"], ["evaluate", "--help"], ["validate", "agent.yaml.example", "--no-judge"], ["metrics"]],
    ids=" ".join,
)
def test_start_up_imports_nothing_heavy(arguments, monkeypatch):
    monkeypatch.chdir(PACKAGE.parent)
    loaded = modules_after(*arguments)
    assert "evalspec" in loaded
    assert not HEAVY & loaded


def test_listing_runs_imports_no_schema(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    assert not (HEAVY | {"pydantic", "evalspec.verdict.outline", "evalspec.reporters"}) & modules_after("runs", "list")


def test_version_and_help_import_no_framework():
    for arguments in (["--version"], ["--help"]):
        assert not {"click", "pydantic", "yaml", "json"} & modules_after(*arguments)


def test_formats_are_imported_when_one_is_looked_up(monkeypatch):
    monkeypatch.chdir(PACKAGE.parent)
    for arguments in (["evaluate", "--help"], ["metrics"]):
        assert not [name for name in modules_after(*arguments) if name.startswith("evalspec.inputs.formats")]


NOT_FOR_ONE_REPLY = HEAVY - {"rich"} | {
    "urllib.request",
    "evalspec.targets.agents.http",
    "evalspec.verdict.comparison",
    "evalspec.inputs.formats.unrag.reading",
    "evalspec.inputs.formats.unrag.schema",
    "evalspec.inputs.formats.unrag.writing",
    "evalspec.targets.http.client",
    "evalspec.targets.http.routes",
    "evalspec.scoring.judge.chat",
    "evalspec.inputs.manifest.retriever_schema",
    "evalspec.runs.planning.opening",
    "evalspec.runs.planning.queries",
    "evalspec.runs.planning.retriever_targets",
    "evalspec.reports.html",
    "evalspec.reports.markdown",
    "evalspec.targets.retrievers.bm25",
    "evalspec.targets.retrievers.ingest_plan",
    "evalspec.targets.retrievers.opening",
    "evalspec.runs.runner.retriever_targets",
    "evalspec.verdict.stats.paired",
    "evalspec.verdict.validity.changes",
}
"""What a run of recorded replies with text metrics does not use. Start-up is most of its CPU."""


def write_one_reply():
    Path("agent.yaml").write_text(
        "apiVersion: agentspec.io/v1\nkind: AgentSpec\nmetadata: {name: a}\nspec: {evaluation: {datasets: "
        "[{name: qa, path: qa.jsonl, metrics: [string_match]}], thresholds: {string_match: 0.5}, ciGate: true}}\n"
    )
    Path("qa.jsonl").write_text('{"id": "s", "input": "Who?", "expected": "We"}\n')
    Path("replies.jsonl").write_text('{"id": "s", "response": "We"}\n')


def test_a_run_imports_only_what_it_uses(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    write_one_reply()
    loaded = modules_after("evaluate", "agent.yaml", "--responses", "replies.jsonl")
    assert "evalspec.cli.run_session" in loaded
    assert not NOT_FOR_ONE_REPLY & loaded


def test_pydantic_builds_the_validator_of_a_manifest_once():
    """Not one for each model in it. `defer_build` of the base class does that, and defaults that are not validated."""
    program = (
        "import sys; from pathlib import Path; from evalspec.inputs.manifest import loader; "
        "loader.load_manifest(Path('agent.yaml.example')); "
        "modules = [module for name, module in sys.modules.items() if name.startswith('evalspec.inputs.manifest.')]; "
        "kinds = {kind for module in modules for kind in vars(module).values()"
        " if getattr(kind, '__pydantic_complete__', False) is True}; "
        "print(*(kind.__name__ for kind in kinds))"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True, cwd=PACKAGE.parent
    )
    assert done.stdout.split() == ["Manifest"]


IMPORTED = {
    ("--version",): 75,
    ("--help",): 77,
    ("metrics",): 343,
    ("validate", "agent.yaml"): 537,
    ("evaluate", "agent.yaml", "--responses", "replies.jsonl"): 699,
    ("runs", "list"): 240,
    ("report",): 592,
    ("report", "-o", "report.html"): 642,
    ("show", "s"): 579,
    ("compare", "latest", "latest"): 632,
    ("plan", "agent.yaml"): 768,
    ("rescore", "latest", "agent.yaml"): 699,
    ("score", "qrels.txt", "run.txt", "-m", "recall"): 164,
    ("convert", "qa.jsonl", "out.jsonl", "--to", "jsonl", "--force"): 415,
}
"""Modules that a command leaves imported on Python 3.11. Start-up is most of what a short command costs. Later Pythons
split modules of their library, so there is more room for them."""
MARGIN = 1.03 if sys.version_info < (3, 12) else 1.06


def test_no_command_imports_more_than_its_budget(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    write_one_reply()
    Path("qrels.txt").write_text("a 0 d 1\n")
    Path("run.txt").write_text("a Q0 d 1 0.5 t\n")
    modules_after("evaluate", "agent.yaml", "--responses", "replies.jsonl")
    grown = {
        " ".join(command): count
        for command, budget in IMPORTED.items()
        if (count := len(modules_after(*command))) > MARGIN * budget
    }
    assert not grown
    assert "asyncio" not in modules_after("validate", "agent.yaml"), (
        "a command that waits for nothing needs no event loop"
    )
    assert modules_after("score", "qrels.txt", "run.txt", "-m", "recall").isdisjoint({"difflib", "json"}), (
        "a short option that exists needs no similar names, and TREC's files no JSON"
    )


def test_records_are_structs():
    """Python compiles the methods of each dataclass at import, which takes thirty times as long as a Struct."""
    found = {
        str(module.relative_to(PACKAGE))
        for module in MODULES
        for node in ast.walk(parse(module))
        if isinstance(node, ast.ImportFrom | ast.Import) and "dataclasses" in ast.unparse(node)
    }
    assert found == {"pytest_plugin/runs.py"}, "only pytest's plugin, which has lazy attributes, may use them"


def test_types_are_built_before_msgspec_decodes_them():
    """Two threads that let msgspec build one type at the same time crash the process."""
    names = re.compile(r"(msgspec\.)?(json\.)?(convert|decode|Decoder)")
    unbuilt = []
    for module in MODULES:
        tree = parse(module)
        imported = {one.asname or one.name for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)
                    and node.module in ("msgspec", "msgspec.json") for one in node.names}  # fmt: skip
        for call in (node for node in ast.walk(tree) if isinstance(node, ast.Call)):
            name = ast.unparse(call.func)
            if not names.fullmatch(name) or not (name.startswith("msgspec.") or name in imported):
                continue
            kinds = [key.value for key in call.keywords if key.arg == "type"]
            kinds += call.args[:1] if name.endswith("Decoder") else call.args[1:2]
            if not all(ast.unparse(kind).startswith(("built(", "list[str]")) for kind in kinds):
                unbuilt.append(f"{module.relative_to(PACKAGE)}:{call.lineno}")
    assert [place for place in unbuilt if not place.startswith("model/base.py")] == []


def test_one_module_prints():
    """Commands print through cli/streams.py, where foreign text is made inert. Only the progress bar is rich's own."""
    printing = {"print", "click.echo", "click.secho", "sys.stderr.write", "sys.stdout.write", "traceback.print_exc"}
    last = {name.rpartition(".")[2] for name in printing}  # `unparse` of every call takes seconds
    found = {
        str(module.relative_to(PACKAGE))
        for module in MODULES
        for node in ast.walk(parse(module))
        if isinstance(node, ast.Call) and last_name(node.func) in last and ast.unparse(node.func) in printing
    }
    assert found == {"cli/streams.py", "__main__.py"}


def last_name(expression):
    return getattr(expression, "attr", getattr(expression, "id", None))


@pytest.mark.parametrize("listing", ["kept", "equivalent"])
def test_a_listed_mutant_is_of_a_line_that_exists(listing):
    """Mutation tests take minutes and are run by hand, so a moved line would leave a mutant that nobody tries."""
    text = (PACKAGE.parent / "benchmarks" / f"{listing}_mutants.txt").read_text()
    listed = re.findall(r"^(evalspec/.+): .+\n- (.+)$", text, re.M)
    lines = {path: unparsed_lines(PACKAGE.parent / path) for path, _ in listed}
    assert listed and [pair for pair in listed if pair[1] not in lines[pair[0]]] == []


def unparsed_lines(path):
    return {line.strip() for line in ast.unparse(parse(path)).splitlines()}


def test_what_tests_share_is_type_checked_as_strictly_as_the_package():
    tests = PACKAGE.parent / "tests"
    overrides = tomllib.loads((tests.parent / "pyproject.toml").read_text())["tool"]["mypy"]["overrides"]
    strict = {
        module for override in overrides if override.get("disallow_untyped_defs") for module in override["module"]
    }
    data = ("earlier/layout_", "first_contact/", "pages/", "traces/agents/")
    names = (path.relative_to(tests) for path in tests.rglob("*.py") if not path.name.startswith(("test_", "__")))
    shared = {".".join(name.with_suffix("").parts) for name in names if not str(name).startswith(data)}
    assert {name for name in shared if not name.startswith("servers.") and not name.endswith("conftest")} <= strict
