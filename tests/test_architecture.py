"""The shape of the package: floors, sizes, and what start-up may not import."""

import ast
import re
import subprocess
import sys
from pathlib import Path
from statistics import median

import pytest

import evalspec

PACKAGE = Path(evalspec.__file__).parent
FLOORS = (
    {"foreign_text"},
    {"errors", "model"},
    {"trust", "plural", "collector", "work_queue", "git"},
    {"registry", "stats", "jsonl", "json_text", "output_files"},
    {"manifest", "ranking", "http", "user_code", "validity", "typed_json"},
    {"datasets", "agents", "judge", "outline"},
    {"retrievers", "summary"},
    {"store", "attempts"},
    {"metrics", "reporters", "gate"},
    {"comparison", "remap", "labels"},
    {"gold"},
    {"formats"},
    {"planning"},
    {"runner"},
    {"api"},
    {"service"},
    {"cli", "pytest_plugin"},
    {"__main__"},
)
FOREIGN_NAME = re.compile(r"unrag|autorag|mixpeek|(?<![a-z])(?:beir|trec(?!_eval))(?![a-z])", re.I)
NAMES_OUTSIDE_FORMATS = {
    # Only AutoRAG has a flat list that can mean two things, and the option says which is meant.
    "cli/convert.py": ["AutoRAG: whether a flat list requires", "collection --to trec"],
    "cli/remap.py": ["AutoRAG: whether a flat list requires"],
    "manifest/dataset_schema.py": ["AutoRAG: whether a flat list of ids means all of them, or any."],
    # Help and messages say which files are read.
    "cli/compare.py": ["or a report of Unrag or AgentSpec."],
    "datasets/located.py": ["JSONL, judgements of TREC and BEIR"],
    # Qrels and runs are the forms of trec_eval, the standard whose work `score` does, and have to be quick to import.
    "cli/score.py": ["TREC or BEIR judgements", "a TREC run"],
    "api/public.py": ["TREC or BEIR judgements", "A TREC run"],
    "api/scoring.py": ["trec_files", "TREC's or BEIR's"],
    "agents/replay.py": ["trec_files", "a TREC run"],
    "ranking/run_files.py": ["trec_files", "a TREC run"],
    "ranking/run_scan.py": ["trec_files"],
    "model/samples.py": ["the maximum in TREC qrels"],
    # Posted datasets have this format, and the API's documentation says whose formulas `compat` means.
    "service/posted_datasets.py": ['DATASET_FORMAT = "mixpeek"'],
    "service/evaluations_api.py": ["`mixpeek`: F1 and F2 of the mean precision"],
}
"""Where a module outside `formats` says the name of another system, and why. ranking/trec_files.py is not looked at."""
FLOOR_OF = {room: floor for floor, rooms in enumerate(FLOORS) for room in rooms} | {"__init__": 0}
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


def room(module: Path) -> str:
    return module.relative_to(PACKAGE).parts[0].removesuffix(".py")


def imported_rooms(module: Path) -> set[str]:
    names = set()
    for node in ast.walk(ast.parse(module.read_text())):
        if isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{module}: relative import"
            names.add(node.module or "")
        elif isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
    return {name.split(".")[1] for name in names if name.startswith("evalspec.")}


@pytest.mark.parametrize("module", MODULES, ids=lambda m: str(m.relative_to(PACKAGE)))
def test_imports_point_down(module):
    own = room(module)
    if own == "__init__":
        return  # exports what is above, by name only
    for other in imported_rooms(module) - {own}:
        assert FLOOR_OF[other] < FLOOR_OF[own], (
            f"{own} (floor {FLOOR_OF[own]}) imports {other} (floor {FLOOR_OF[other]})"
        )


def test_the_page_on_architecture_has_these_floors():
    page = (Path(__file__).parents[1] / "docs" / "explanation" / "architecture.md").read_text()
    rows = re.findall(r"^\| [^|]+ \| (`[^|]+) \|$", page.partition("## Floors")[2].partition("## ")[0], flags=re.M)
    assert [set(re.findall(r"`(\w+)`", row)) for row in rows] == [*reversed(FLOORS[:-1])]


def test_nothing_imports_a_format():
    """The registry finds them, so nothing else needs to name a system."""
    importing = {room(module) for module in MODULES if "formats" in imported_rooms(module)}
    assert importing == {"formats"}


def test_only_formats_name_other_systems():
    found = {}
    for module in MODULES:
        name = module.relative_to(PACKAGE).as_posix()
        text = module.read_text()
        for phrase in NAMES_OUTSIDE_FORMATS.get(name, ()):
            assert phrase in text, f"{name}: an exception that is no longer needed"
            text = text.replace(phrase, "")
        if room(module) != "formats" and name != "ranking/trec_files.py":
            found |= {name: names} if (names := FOREIGN_NAME.findall(text)) else {}
    assert not found


def test_modules_are_small():
    sizes = {module: len(module.read_text().splitlines()) for module in MODULES}
    assert max(sizes.values()) <= 400, max(sizes, key=sizes.get)
    assert median(sizes.values()) <= 150


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
    assert not (HEAVY | {"pydantic", "evalspec.outline", "evalspec.reporters"}) & modules_after("runs", "list")


def test_version_and_help_import_no_framework():
    for arguments in (["--version"], ["--help"]):
        assert not {"click", "pydantic", "yaml", "json"} & modules_after(*arguments)


def test_formats_are_imported_when_one_is_looked_up(monkeypatch):
    monkeypatch.chdir(PACKAGE.parent)
    for arguments in (["evaluate", "--help"], ["metrics"]):
        assert not [name for name in modules_after(*arguments) if name.startswith("evalspec.formats")]


NOT_FOR_ONE_REPLY = HEAVY - {"rich"} | {
    "urllib.request",
    "evalspec.agents.http",
    "evalspec.comparison",
    "evalspec.formats.unrag.reading",
    "evalspec.formats.unrag.schema",
    "evalspec.formats.unrag.writing",
    "evalspec.http.client",
    "evalspec.http.routes",
    "evalspec.judge.chat",
    "evalspec.manifest.retriever_schema",
    "evalspec.planning.opening",
    "evalspec.planning.query_settings",
    "evalspec.planning.retriever_targets",
    "evalspec.reporters.html",
    "evalspec.reporters.markdown",
    "evalspec.retrievers.bm25",
    "evalspec.retrievers.ingesting",
    "evalspec.retrievers.opening",
    "evalspec.runner.retriever_targets",
    "evalspec.stats.paired",
    "evalspec.validity.changes",
}
"""What a run of recorded replies with text metrics does not use. Start-up is most of its CPU."""


def test_a_run_imports_only_what_it_uses(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    Path("agent.yaml").write_text(
        "apiVersion: agentspec.io/v1\nkind: AgentSpec\nmetadata: {name: a}\nspec: {evaluation: {datasets: "
        "[{name: qa, path: qa.jsonl, metrics: [string_match]}], thresholds: {string_match: 0.5}, ciGate: true}}\n"
    )
    Path("qa.jsonl").write_text('{"id": "s", "input": "Who?", "expected": "We"}\n')
    Path("replies.jsonl").write_text('{"id": "s", "response": "We"}\n')
    loaded = modules_after("evaluate", "agent.yaml", "--responses", "replies.jsonl")
    assert "evalspec.cli.run_session" in loaded
    assert not NOT_FOR_ONE_REPLY & loaded


def test_pydantic_builds_the_validator_of_a_manifest_once():
    """Not one for each model in it. `defer_build` of the base class does that, and defaults that are not validated."""
    program = (
        "import sys; from pathlib import Path; from evalspec.manifest import loader; "
        "loader.load_manifest(Path('agent.yaml.example')); "
        "modules = [module for name, module in sys.modules.items() if name.startswith('evalspec.manifest.')]; "
        "kinds = {kind for module in modules for kind in vars(module).values()"
        " if getattr(kind, '__pydantic_complete__', False) is True}; "
        "print(*(kind.__name__ for kind in kinds))"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True, cwd=PACKAGE.parent
    )
    assert done.stdout.split() == ["Manifest"]


def test_records_are_structs():
    """Python compiles the methods of each dataclass at import, which takes thirty times as long as a Struct."""
    found = {
        str(module.relative_to(PACKAGE))
        for module in MODULES
        for node in ast.walk(ast.parse(module.read_text()))
        if isinstance(node, ast.ImportFrom | ast.Import) and "dataclasses" in ast.unparse(node)
    }
    assert found == {"pytest_plugin/runs.py"}, "only pytest's plugin, which has lazy attributes, may use them"


def test_types_are_built_before_msgspec_decodes_them():
    """Two threads that let msgspec build one type at the same time crash the process."""
    names = re.compile(r"(msgspec\.)?(json\.)?(convert|decode|Decoder)")
    unbuilt = []
    for module in MODULES:
        tree = ast.parse(module.read_text())
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
    found = {
        str(module.relative_to(PACKAGE))
        for module in MODULES
        for node in ast.walk(ast.parse(module.read_text()))
        if isinstance(node, ast.Call) and ast.unparse(node.func) in printing
    }
    assert found == {"cli/streams.py", "__main__.py"}
