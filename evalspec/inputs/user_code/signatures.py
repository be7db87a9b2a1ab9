"""Signatures of the user's functions, read from the source without running it."""

import ast
from collections.abc import Iterable, Iterator, Mapping
from inspect import Parameter, Signature
from pathlib import Path
from typing import Any, Literal

from evalspec.inputs.user_code.modules import find_source

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
        tree = ast.parse((find_source(folder, module) or Path()).read_bytes())
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
