"""Which objects of user code are agents, and which of their methods is called."""

import inspect
from typing import Any

AgentFunction = Any
"""A function, an object or a class. Takes the question, or a conversation as a list of `{"role", "content"}`. Returns
the answer as text, or a dict with `response` and, if known, `retrieved_contexts`, `retrieved_context_ids`,
`tool_calls`, `steps`, `model_calls`, `usage` and `finish_reason`. May be async, and may yield the answer in
pieces. A class is instantiated; objects of LangChain and LlamaIndex are called as they are."""

_RUNNABLE = ("invoke", "ainvoke")
ENGINE = ("query", "aquery", "chat", "achat")
CALL = "__call__"


def is_agent(value: Any) -> bool:
    """Return whether a value is a function, an object or a class that can answer questions."""
    return find_entry(value) is not None


def describe_misfit(agent: Any) -> str | None:
    """Return why an agent cannot be called with one question, or None if it can, or if its parameters are unknown."""
    if inspect.isclass(agent) and defines_entry(agent):
        return None
    entry = find_entry(agent) or CALL
    try:
        signature = inspect.signature(agent if entry == CALL else getattr(agent, entry))
    except (TypeError, ValueError):  # code that was not written in Python may have none
        return None
    try:
        signature.bind("")
    except TypeError as error:
        return str(error)
    return None


def find_entry(agent: Any) -> str | None:
    """Return the name of the method to call, or None. `__call__` stands for the object itself."""
    is_called = callable(agent) and (not inspect.isclass(agent) or _defines_call(agent) or not _has_methods(agent))
    names = (*_RUNNABLE, *([CALL] if is_called else []), *ENGINE)
    return next((name for name in names if callable(getattr(agent, name, None))), None)


def _has_methods(agent: Any) -> bool:
    return any(callable(getattr(agent, name, None)) for name in (*_RUNNABLE, *ENGINE))


def _defines_call(kind: type) -> bool:
    return any(CALL in vars(base) for base in kind.__mro__)


def defines_entry(kind: type) -> bool:
    """Return whether the instances of a class answer questions. If not, calling the class is the agent."""
    return _has_methods(kind) or _defines_call(kind)
