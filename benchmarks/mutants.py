"""Mutation testing: change one operator, constant or statement of a module at a time, and list undetected changes.

    PYTHONPATH=$PWD python benchmarks/mutants.py evalspec/verdict/gate.py -- tests/test_gate.py [pytest options]

Mutants run in temporary copies, never in the working tree. `equivalent_mutants.txt` lists mutants that no test can
detect, each with its reason. The exit code is 1 if another mutant survives, or if an entry of the list is out of date.

`kept_mutants.txt` lists drawn mutants with their results. `--kept` tries those of a file again, and the exit code is 1
if one that was killed survives or is gone. `--sample 15 --keep` draws a new list.
"""

import argparse
import ast
import contextlib
import importlib
import itertools
import multiprocessing
import os
import random
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import NamedTuple

from hypothesis import settings

ROOT = Path(__file__).parents[1]
EQUIVALENT = Path(__file__).with_name("equivalent_mutants.txt")
KEPT = Path(__file__).with_name("kept_mutants.txt")
KILLED, SURVIVES = "killed", "survives"
PRELOADED = ("pytest", "numpy", "scipy.stats", "pydantic", "httpx", "rich.console", "click", "yaml", "msgspec")
PRELOADED_OF_OURS = (
    "inputs.manifest.loader",
    "inputs.datasets.load",
    "runs.planning.metrics",
    "runs.planning.thresholds",
    "targets.agents.http",
)
WORKERS = 2

OPERATORS = {
    ast.Lt: (ast.LtE, ast.GtE), ast.LtE: (ast.Lt, ast.Gt), ast.Gt: (ast.GtE, ast.LtE), ast.GtE: (ast.Gt, ast.Lt),
    ast.Eq: (ast.NotEq,), ast.NotEq: (ast.Eq,), ast.Is: (ast.IsNot,), ast.IsNot: (ast.Is,),
    ast.In: (ast.NotIn,), ast.NotIn: (ast.In,), ast.And: (ast.Or,), ast.Or: (ast.And,),
    ast.Add: (ast.Sub,), ast.Sub: (ast.Add,), ast.Mult: (ast.Div,), ast.Div: (ast.Mult,),
    ast.FloorDiv: (ast.Mult,), ast.Mod: (ast.Mult,), ast.Pow: (ast.Mult,), ast.BitOr: (ast.BitAnd,),
}  # fmt: skip
NAMES = dict(itertools.chain.from_iterable([(a, b), (b, a)] for a, b in [
    ("min", "max"), ("any", "all"), ("floor", "ceil"), ("minimum", "maximum"), ("isinf", "isfinite"),
]))  # fmt: skip
NOT_CODE = {"annotation", "returns", "decorator_list"}


class Mutant(NamedTuple):
    path: str
    scope: str
    before: str
    after: str

    def __str__(self) -> str:
        return f"{self.path}: {self.scope or 'module'}\n- {self.before}\n+ {self.after}"


def find_variants(node: ast.AST) -> Iterator[ast.AST]:  # noqa: C901 - one case for each kind of node
    """Yield the replacements of one node. Child nodes are visited separately."""
    match node:
        case ast.Constant(value=bool()):
            yield ast.Constant(not node.value)
        case ast.Constant(value=int()):
            yield from (ast.Constant(node.value + 1), ast.Constant(node.value - 1))
        case ast.Constant(value=float()):
            yield from map(ast.Constant, (2 * node.value, node.value / 2) if node.value else (1.0, -1.0))
        case ast.Compare(ops=[op]):
            yield from (ast.Compare(node.left, [other()], node.comparators) for other in OPERATORS.get(type(op), ()))
        case ast.BoolOp():
            yield ast.BoolOp(OPERATORS[type(node.op)][0](), node.values)
            for place in range(len(node.values)):
                rest = node.values[:place] + node.values[place + 1 :]
                yield ast.BoolOp(node.op, rest) if len(rest) > 1 else rest[0]
        case ast.BinOp():
            yield from (ast.BinOp(node.left, other(), node.right) for other in OPERATORS.get(type(node.op), ()))
        case ast.AugAssign():
            yield from (ast.AugAssign(node.target, other(), node.value) for other in OPERATORS.get(type(node.op), ()))
            yield ast.Pass()
        case ast.UnaryOp(op=ast.Not() | ast.USub()):
            yield node.operand
        case ast.IfExp():
            yield from (node.body, node.orelse)
        case ast.If() | ast.While():
            always = [ast.Constant(True), ast.Constant(False)][isinstance(node, ast.While) :]
            yield from (type(node)(test, node.body, node.orelse) for test in always)
        case ast.comprehension(ifs=[_, *_]):
            for place in range(len(node.ifs)):
                rest = node.ifs[:place] + node.ifs[place + 1 :]
                yield ast.comprehension(node.target, node.iter, rest, node.is_async)
        case ast.Return(value=ast.AST() as value) if not (isinstance(value, ast.Constant) and not value.value):
            yield ast.Return(ast.Constant(None))
        case ast.Call(keywords=[_, *_]):
            for place in range(len(node.keywords)):
                yield ast.Call(node.func, node.args, node.keywords[:place] + node.keywords[place + 1 :])
        case ast.Name(id=name) if name in NAMES:
            yield ast.Name(NAMES[name])
        case ast.Attribute(attr=name) if name in NAMES:
            yield ast.Attribute(node.value, NAMES[name])
        case ast.Subscript(slice=ast.Slice()):
            yield node.value
        case ast.Continue() | ast.Break() | ast.Raise():
            yield ast.Pass()
        case ast.Expr(value=value) if not isinstance(value, ast.Constant):
            yield ast.Pass()
        case ast.Assign(targets=[ast.Attribute() | ast.Subscript()]):
            yield ast.Pass()


def mutate(path: str) -> dict[Mutant, tuple[int, str]]:
    """Yield every mutant of a file: the changed line and the whole text."""
    tree = ast.parse((ROOT / path).read_text("utf-8"))
    original = ast.unparse(tree).splitlines()
    found = {}

    def visit(node: ast.AST, scope: str, line: int) -> None:
        for field, value in ast.iter_fields(node):
            children = value if isinstance(value, list) else [value]
            for place, child in enumerate(children):
                if field in NOT_CODE or not isinstance(child, ast.AST) or _is_for_types(child):
                    continue
                at = getattr(child, "lineno", line)
                for variant in find_variants(child):
                    children[place] = variant
                    setattr(node, field, children if isinstance(value, list) else variant)
                    text = ast.unparse(tree)
                    children[place] = child
                    setattr(node, field, value if isinstance(value, list) else child)
                    pairs = zip(original, text.splitlines(), strict=True)
                    before, after = next(((a.strip(), b.strip()) for a, b in pairs if a != b), ("", ""))
                    if before != after:
                        found.setdefault(Mutant(path, scope, before, after), (at, text))
                is_scope = isinstance(child, ast.FunctionDef | ast.ClassDef)
                visit(child, f"{scope}.{child.name}".strip(".") if is_scope else scope, at)

    visit(tree, "", 1)
    return found


def _is_for_types(node: ast.AST) -> bool:
    return isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING"


def start_worker(folders: "multiprocessing.SimpleQueue[str]", path: str) -> None:
    """Copy the package for a worker, and import the modules that do not depend on the mutated one."""
    global _folder
    _folder = Path(folders.get()) / "copy"
    shutil.copytree(ROOT, _folder, ignore=shutil.ignore_patterns(".*", "*.egg-info"))
    os.chdir(_folder)
    os.environ["PYTHONPATH"] = str(_folder)
    sys.path[:] = [str(_folder), *(entry for entry in sys.path if Path(entry) not in (ROOT, ROOT / "benchmarks"))]
    sys.dont_write_bytecode = True
    mutated = path.removesuffix(".py").replace("/", ".")
    for name in PRELOADED_OF_OURS:
        if not (pid := os.fork()):
            code = 1
            with contextlib.suppress(ImportError):
                importlib.import_module(f"evalspec.{name}")
                code = int(mutated in sys.modules)
            os._exit(code)
        if os.waitpid(pid, 0)[1] == 0:
            importlib.import_module(f"evalspec.{name}")


def run_tests(path: str, text: str | None, tests: list[str], limit: float) -> tuple[bool, float]:
    """Return whether all tests pass with a text of the file (None: the original), and how long they took."""
    file, started = _folder / path, time.monotonic()
    file.write_text(text or (ROOT / path).read_text("utf-8"), "utf-8")
    for cached in file.parent.glob(f"__pycache__/{file.stem}.*"):
        cached.unlink()
    if not (pid := os.fork()):
        _become_pytest(tests)
    while time.monotonic() - started < limit:
        done, status = os.waitpid(pid, os.WNOHANG)
        if done:
            return status == 0, time.monotonic() - started
        time.sleep(0.02)
    os.killpg(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
    return False, limit


def _become_pytest(tests: list[str]) -> None:
    """Run pytest in this forked process and exit. Never returns."""
    code = 9
    with contextlib.suppress(BaseException):
        os.setsid()
        nowhere = os.open(os.devnull, os.O_RDWR)
        for stream in () if "MUTANTS_SHOW" in os.environ else range(3):
            os.dup2(nowhere, stream)
        options = ["-x", "-q", "-W", "ignore:Module already imported", "--hypothesis-profile", "mutants"]
        code = int(importlib.import_module("pytest").main([*options, *tests]))
        if not sys.modules["evalspec"].__file__.startswith(str(_folder)):
            code = 9
    os._exit(code)


def read_listed(listing: Path) -> dict[Mutant, str]:
    """Return the mutants of a list with what it says of them.

    Each is a block of four lines: `file: scope`, `- before`, `+ after`, a reason or result.
    """
    blocks = [block.splitlines() for block in listing.read_text("utf-8").strip().split("\n\n")]
    listed = {}
    for head, before, after, said in (block for block in blocks if not block[0].startswith("#")):
        file, scope = head.split(": ")
        listed[Mutant(file, "" if scope == "module" else scope, before[2:], after[2:])] = said
    return listed


def keep(path: str, results: dict[Mutant, str]) -> None:
    """Replace the mutants of a file in the list of kept ones."""
    head = KEPT.read_text("utf-8").partition("\n\n")[0].strip()
    others = {mutant: said for mutant, said in read_listed(KEPT).items() if mutant.path != path}
    blocks = [f"{mutant}\n{said}" for mutant, said in sorted((others | results).items())]
    KEPT.write_text("\n\n".join([head, *blocks]) + "\n", "utf-8")


def choose(given: argparse.Namespace) -> tuple[dict[Mutant, tuple[int, str]], set[Mutant]]:
    """Return the mutants to try, and those that a list says survive. Kept ones that are gone count as such."""
    mutants = {mutant: found for mutant, found in mutate(given.file).items() if given.only in mutant.scope}
    if given.kept:
        kept = {mutant: said for mutant, said in read_listed(KEPT).items() if mutant.path == given.file}
        expected = {mutant for mutant, said in kept.items() if said != KILLED or mutant not in mutants}
        return {mutant: mutants[mutant] for mutant in kept if mutant in mutants}, expected
    equivalents = {mutant for mutant in read_listed(EQUIVALENT) if mutant.path == given.file}
    if given.sample is None:
        return mutants, equivalents
    candidates = sorted(mutants.keys() - equivalents)
    chosen = random.Random(0).sample(candidates, min(given.sample, len(candidates)))
    return {mutant: mutants[mutant] for mutant in chosen}, set()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("file", help="from the root of the repository")
    parser.add_argument("--only", default="", help="mutate only functions whose name contains this")
    parser.add_argument("--sample", type=int, help="try only so many, drawn with a fixed seed")
    parser.add_argument("--keep", action="store_true", help="write the results to kept_mutants.txt")
    parser.add_argument("--kept", action="store_true", help="try only the mutants of kept_mutants.txt")
    parser.add_argument("tests", nargs="+", help="tests and options of pytest, after --")
    given = parser.parse_args()
    mutants, equivalents = choose(given)
    settings.register_profile("mutants", max_examples=25, derandomize=True, database=None, deadline=None)
    settings.load_profile("mutants")
    for module in PRELOADED:
        importlib.import_module(module)
    context = multiprocessing.get_context("fork")
    with contextlib.ExitStack() as stack:
        folders = context.SimpleQueue()
        for _ in range(WORKERS):
            folders.put(stack.enter_context(tempfile.TemporaryDirectory()))
        pool = stack.enter_context(ProcessPoolExecutor(WORKERS, context, start_worker, (folders, given.file)))
        passed, seconds = pool.submit(run_tests, given.file, None, given.tests, 600).result()
        if not passed:
            print("the tests fail without any mutation")
            return 2
        limit = 10 + 4 * seconds
        runs = {m: pool.submit(run_tests, given.file, text, given.tests, limit) for m, (_, text) in mutants.items()}
        survivors = set()
        for mutant, run in runs.items():
            if run.result()[0]:
                survivors.add(mutant)
                if mutant not in equivalents:
                    print(f"\n{given.file}:{mutants[mutant][0]}\n{mutant}", flush=True)
    unlisted, stale = survivors - equivalents, equivalents - survivors
    if given.keep:
        keep(given.file, {mutant: SURVIVES if mutant in survivors else KILLED for mutant in mutants})
    if given.only:
        stale = {mutant for mutant in stale if given.only in mutant.scope}
    for mutant in sorted(stale):
        print(f"\nlisted, but {'killed' if mutant in mutants else 'no mutant of the file'}:\n{mutant}")
    killed = len(mutants) - len(survivors)
    counts = f"{killed} killed, {len(survivors & equivalents)} survive as listed, {len(unlisted)} survive"
    print(f"\n{given.file}: {len(mutants)} mutants, {counts}; the tests take {seconds:.1f} s")
    return 1 if unlisted or stale else 0


if __name__ == "__main__":
    sys.exit(main())
