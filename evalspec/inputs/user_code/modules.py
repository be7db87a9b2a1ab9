"""Checks and imports of the user's modules beside the manifest, and signatures of their functions.

A module's imports prefer other modules of its folder. During its import, a meta path finder ensures this, for the
importing thread only. For later imports inside functions, the folder is the last entry of sys.path, where it shadows no
installed package. Only one folder is on sys.path at a time. When another folder is used, the modules of the previous
one are removed from sys.modules, so that modules with equal names are not mixed up.
"""

import ast
import importlib
import symtable
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from importlib.machinery import ModuleSpec, PathFinder
from importlib.util import decode_source
from inspect import Parameter, Signature
from pathlib import Path
from threading import Lock, get_ident
from types import ModuleType
from typing import Any, Literal
from weakref import WeakSet

from msgspec import Struct

from evalspec.base.registry import near_miss
from evalspec.base.trust import Act, require


def check_module(folder: Path, module: str, name: str) -> list[str]:
    """Return why `module:name` cannot be imported from a folder. Reads the file without running it."""
    spec = _find_module(folder, module)
    if spec is None:
        return [f"there is no module '{module}' beside the manifest; {_hint(module, _modules_in(folder))}"]
    if spec.origin is None:
        return [f"'{module}' is a folder without __init__.py; specify a module in it"]
    return _source_problems(Path(spec.origin), name) if spec.origin.endswith(".py") else []


def find_source(folder: Path, module: str) -> Path | None:
    """Return the Python file of a dotted module name in a folder; None if there is none."""
    spec = _find_module(folder, module)
    return Path(spec.origin) if spec and spec.origin and spec.origin.endswith(".py") else None


def list_module_files(folder: Path, module: str) -> set[Path]:
    """Return the files of a module beside the manifest and of all modules of its folder that it imports, recursively.

    Imports are found by parsing, so imports of computed names are missed.
    """
    files: set[Path] = set()
    waiting = [module]
    seen = set(waiting)
    while waiting:
        name = waiting.pop()
        spec = _find_module(folder, name)
        if spec is None or spec.origin is None:
            continue
        file = Path(spec.origin)
        files.add(file)
        package = name if spec.submodule_search_locations is not None else name.rpartition(".")[0]
        found = {name.rpartition(".")[0], *_find_imports(file, package)} - seen - {""}
        seen |= found
        waiting += found
    return files


def parse_file(file: Path) -> ast.Module:
    """Return the code of a module.

    Raises:
        OSError: The file cannot be read.
        ValueError, SyntaxError: Python cannot compile it.
    """
    try:
        return ast.parse(file.read_bytes())
    except (RecursionError, MemoryError) as error:
        raise ValueError("its code is nested too deeply for Python") from error


def _find_imports(file: Path, package: str) -> set[str]:
    """Return the dotted names that a module imports anywhere in its code.

    This includes every name after `from … import`, because it may be a module.
    """
    try:
        tree = parse_file(file)
    except (OSError, ValueError, SyntaxError):  # the import reports why
        return set()
    names: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            above = package.split(".")[: package.count(".") + 2 - node.level] if node.level else []
            base = ".".join(filter(None, [*above, node.module]))
            names.update([base, *(f"{base}.{alias.name}" for alias in node.names)])
    return names


def _find_module(folder: Path, module: str) -> ModuleSpec | None:
    """Return the spec of a dotted module name in a folder. Executes nothing, not even the __init__ of a package."""
    places = [str(folder.resolve())]
    spec = None
    for part in module.split("."):
        spec = PathFinder.find_spec(part, places)
        if spec is None:
            return None
        places = list(spec.submodule_search_locations or ())
    return spec


def _source_problems(file: Path, name: str) -> list[str]:
    try:
        tree = parse_file(file)
        names = symtable.symtable(decode_source(file.read_bytes()), file.name, "exec").get_symbols()
    except SyntaxError as error:
        return [f"{file.name}:{error.lineno or 1}: {error.msg}; fix the syntax"]
    except (OSError, ValueError) as error:
        return [f"{file.name} cannot be read: {error}"]
    defined = {symbol.get_name() for symbol in names if symbol.is_assigned() or symbol.is_imported()}
    if name in defined or "__getattr__" in defined or _has_star_import(tree):
        return []
    functions = [symbol.get_name() for symbol in names if symbol.is_namespace()]
    return [f"{file.name} does not define '{name}'; {_hint(name, functions)}"]


def _has_star_import(tree: ast.Module) -> bool:
    """Return whether a module has a star import. Its names are then unknown without running it."""
    imports = (node for node in ast.walk(tree) if isinstance(node, ast.ImportFrom))
    return any(alias.name == "*" for node in imports for alias in node.names)


def _modules_in(folder: Path) -> list[str]:
    packages = [path.parent.name for path in folder.glob("*/__init__.py")]
    return [path.stem for path in folder.glob("*.py")] + packages


def _hint(name: str, known: Iterable[str]) -> str:
    names = list(known)
    return near_miss(name, names) if names else "there are no others"


class _Folder(Struct, frozen=True):
    """The folder in use. `entry`: its entry of sys.path, found by identity. `loaded_before`: modules loaded earlier."""

    entry: str
    loaded_before: frozenset[str]


class _FolderFirst:
    """Meta path finder for the modules of a folder, for imports of one thread.

    Of the folders without __init__.py, only `top` is a package. The others are found at the end of sys.path, after
    installed packages, so that a folder `datasets` with data does not shadow a package.
    """

    def __init__(self, entry: str, top: str) -> None:
        self._places = [entry]
        self._top = top
        self._thread = get_ident()

    def find_spec(
        self,
        fullname: str,
        path: Sequence[str] | None,
        target: ModuleType | None = None,  # noqa: ARG002 - the protocol's
    ) -> ModuleSpec | None:
        """Return the spec of a module in the folder, or None. Called by the import system."""
        if path is not None or get_ident() != self._thread:
            return None
        spec = PathFinder.find_spec(fullname, self._places)
        return spec if spec and (spec.origin or fullname == self._top) else None


_IN_USE: list[_Folder] = []
_IMPORTING = Lock()
_IMPORTED: WeakSet[ModuleType] = WeakSet()
"""The modules that `import_module` has loaded, with those that they import."""
_CLAIMED: WeakSet[ModuleType] = WeakSet()


def import_module(folder: Path, module: str) -> ModuleType:
    """Import a dotted module from a folder, even if another module of that name is installed or loaded.

    Raises:
        Exception: Any exception that the module raises.
        Refused: --untrusted does not import the project's code.
    """
    require(Act.IMPORT, module)
    with _IMPORTING:
        entry = _use_folder(str(folder.resolve()))
        top = module.partition(".")[0]
        foreign = {} if _home(top) == entry else _forget(top)
        finder = _FolderFirst(entry, top)
        sys.meta_path = [finder, *sys.meta_path]  # a new list: an import of another thread may be iterating over it
        importlib.invalidate_caches()
        loaded_before = set(sys.modules)
        try:
            return importlib.import_module(module)
        finally:
            sys.meta_path = [other for other in sys.meta_path if other is not finder]
            added = (module for name, module in _copy_modules().items() if name not in loaded_before)
            _IMPORTED.update(one for one in added if type(one).__weakrefoffset__)  # libraries of cffi have none
            if foreign:
                _forget(top)
                sys.modules.update(foreign)


def is_imported_here(folder: Path, module: str) -> bool:
    """Return whether `import_module` has loaded a module, rather than the calling program."""
    with _IMPORTING:
        loaded = _find_loaded(folder, module)
        return loaded is None or loaded in _IMPORTED


def claim_module(folder: Path, module: str) -> bool:
    """Reserve a module for one run, which may use up its objects. Return False if another run has claimed it."""
    with _IMPORTING:
        loaded = _find_loaded(folder, module)
        is_free = loaded is None or loaded not in _CLAIMED
        if loaded is not None:
            _CLAIMED.add(loaded)
        return is_free


def renew_module(folder: Path, module: str) -> None:
    """If a run has claimed a module, remove it and its package, so that the next import runs it again."""
    with _IMPORTING:
        loaded = _find_loaded(folder, module)
        if loaded is not None and loaded in _CLAIMED:
            _forget(module.partition(".")[0])


def _find_loaded(folder: Path, module: str) -> ModuleType | None:
    """Return a module of a folder from sys.modules."""
    return sys.modules.get(module) if _home(module.partition(".")[0]) == str(folder.resolve()) else None


def _use_folder(folder: str) -> str:
    """Replace the folder at the end of sys.path, and remove the modules of the previous one from sys.modules."""
    if _IN_USE and _IN_USE[0].entry == folder:
        return folder
    while _IN_USE:
        previous = _IN_USE.pop()
        sys.path[:] = [entry for entry in sys.path if entry is not previous.entry]
        tops = {name.partition(".")[0] for name in _copy_modules()} - previous.loaded_before
        for top in [top for top in tops if _home(top) == previous.entry]:
            _forget(top)
    _IN_USE.append(_Folder(folder, frozenset(sys.modules)))
    sys.path.append(folder)
    return folder


def _forget(top: str) -> dict[str, ModuleType]:
    """Remove a top-level module and its submodules from sys.modules, and return them."""
    found = {name: module for name, module in _copy_modules().items() if name.partition(".")[0] == top}
    for name in found:
        sys.modules.pop(name, None)
    return found


def _copy_modules() -> dict[str, ModuleType]:
    """Return sys.modules as it is now. Another thread may be importing, so nothing may iterate over it."""
    return sys.modules.copy()


def _home(top: str) -> str | None:
    """Return the folder that contains a loaded top-level module."""
    module = sys.modules.get(top)
    places = [*getattr(module, "__path__", ()), getattr(module, "__file__", None)]
    return str(Path(places[0]).parent) if places[0] else None


_Function = ast.FunctionDef | ast.AsyncFunctionDef
_TYPES: Mapping[str, type] = {"str": str, "int": int, "float": float, "bool": bool}


class _Code:
    """An annotation or default that is known only as code."""

    def __init__(self, expression: ast.expr) -> None:
        self._text = ast.unparse(expression)

    def __repr__(self) -> str:
        return self._text


def read_signature(folder: Path, target: str) -> Signature | None:
    """Return the signature of the function `module:name` in a folder.

    Annotations are types if they are str, int, float, bool or Literal. None: the file defines no such function, or
    the name may stand for something else, as after a decorator.
    """
    module, _, name = target.partition(":")
    try:
        tree = parse_file(find_source(folder, module) or Path())
    except (OSError, ValueError, SyntaxError):  # the check of the module reports why
        return None
    statements = list(_list_statements(tree.body))
    constants = dict(_list_constants(statements))
    functions = [one for one in statements if isinstance(one, _Function) and one.name == name]
    if len(functions) != 1 or functions[0].decorator_list or name in constants:
        return None
    return Signature([*_list_parameters(functions[0].args, constants)])


def _list_statements(body: Iterable[ast.AST]) -> Iterator[ast.AST]:
    """Yield the statements of a module, also within `if` and `try`, but not within functions and classes."""
    for node in body:
        yield node
        if not isinstance(node, _Function | ast.ClassDef | ast.expr):
            yield from _list_statements(ast.iter_child_nodes(node))


def _list_constants(statements: Iterable[ast.AST]) -> Iterator[tuple[str, ast.expr]]:
    """Yield the names that a module assigns, each with the expression."""
    for node in statements:
        if isinstance(node, ast.Assign | ast.AnnAssign) and node.value is not None:
            for target in node.targets if isinstance(node, ast.Assign) else [node.target]:
                if isinstance(target, ast.Name):
                    yield target.id, node.value


def _list_parameters(given: ast.arguments, constants: Mapping[str, ast.expr]) -> Iterator[Parameter]:
    by_position = (*given.posonlyargs, *given.args)
    defaults: list[ast.expr | None] = [None] * (len(by_position) - len(given.defaults)) + given.defaults
    only: list[Any] = [Parameter.POSITIONAL_ONLY] * len(given.posonlyargs)
    kinds = only + [Parameter.POSITIONAL_OR_KEYWORD] * len(given.args)
    groups: list[tuple[ast.arg | None, Any, ast.expr | None]] = [
        *zip(by_position, kinds, defaults, strict=True),
        (given.vararg, Parameter.VAR_POSITIONAL, None),
        *((one, Parameter.KEYWORD_ONLY, value) for one, value in zip(given.kwonlyargs, given.kw_defaults, strict=True)),
        (given.kwarg, Parameter.VAR_KEYWORD, None),
    ]
    for one, kind, default in groups:
        if one is None:
            continue
        value = Parameter.empty if default is None else _read_value(default, constants)
        annotation = Parameter.empty if one.annotation is None else _read_type(one.annotation, constants)
        yield Parameter(one.arg, kind, default=value, annotation=annotation)


def _read_value(expression: ast.expr, constants: Mapping[str, ast.expr]) -> Any:
    try:
        return ast.literal_eval(_resolve(expression, constants))
    except (ValueError, TypeError):
        return _Code(expression)


def _read_type(expression: ast.expr, constants: Mapping[str, ast.expr]) -> Any:
    found = _resolve(expression, constants)
    if isinstance(found, ast.Constant) and isinstance(found.value, str):
        found = ast.parse(found.value, mode="eval").body
    if isinstance(found, ast.Name) and found.id in _TYPES:
        return _TYPES[found.id]
    if isinstance(found, ast.Subscript) and ast.unparse(found.value).rpartition(".")[2] == "Literal":
        choices = _read_value(found.slice, constants)
        return Literal[choices] if isinstance(choices, tuple) else Literal[(choices,)]
    return _Code(expression)


def _resolve(expression: ast.expr, constants: Mapping[str, ast.expr]) -> ast.expr:
    """Return the value of a name that the module defines, else the expression itself."""
    return constants.get(expression.id, expression) if isinstance(expression, ast.Name) else expression
