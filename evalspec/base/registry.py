"""The registry of everything that has a name: metrics, dataset formats, reporters."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache
from importlib import import_module
from pkgutil import iter_modules
from threading import RLock
from types import ModuleType
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from evalspec.base.errors import EvalspecError, InvalidInput, Problem
from evalspec.base.trust import Act, current_trust

if TYPE_CHECKING:
    from importlib import metadata

T = TypeVar("T")

_GROUPS = "[evalspec."
"""How the sections of evalspec's groups begin in a file of entry points."""
_MOST = 20
"""Names that a fix lists. A gold set has thousands of triples."""


SURELY_MEANT = 0.86
"""How close a word is to the one that it misspells, where it may also be right: `include`, but not `option`."""


def find_close(name: str, known: Iterable[str], closeness: float = 0.6) -> str | None:
    """Return the known name that is closest to an unknown one, whatever its case; None if none is close.

    A name with brackets is close to what precedes them.
    """
    from difflib import get_close_matches

    by_folded = {candidate.casefold(): candidate for candidate in known}
    close = [one for one in by_folded if one.startswith(f"{name.casefold()}(")]
    close = close or get_close_matches(name.casefold(), by_folded, n=1, cutoff=closeness)
    return by_folded[close[0]] if close else None


def near_miss(name: str, known: Iterable[str]) -> str:
    """Return a fix for an unknown name: the closest known name, or the known names if none is close."""
    names = sorted(known)
    close = find_close(name, names)
    if close is not None:
        return f"did you mean '{close}'?"
    more = f" and {len(names) - _MOST:,} more" if len(names) > _MOST else ""
    return f"known: {', '.join(names[:_MOST])}{more}"


def returned(value: Any, kind: type[T]) -> T:
    """Return what a plug-in returned.

    Raises:
        TypeError: it has another type.
    """
    if not isinstance(value, kind):
        raise TypeError(f"it returned {type(value).__name__}, not {kind.__name__}")
    return value


def entry_points(group: str) -> "metadata.EntryPoints":
    """Return the entry points of a group in all installed packages."""
    found: metadata.EntryPoints = _read_entry_points().select(group=group)
    return found


@cache
def _read_entry_points() -> Any:
    """Return the entry points of all groups, in a type that depends on Python's version.

    Most environments have none of evalspec's groups. Then they are not parsed, which takes longer than to read them.
    """
    from importlib import metadata

    texts = (package.read_text("entry_points.txt") or "" for package in metadata.distributions())
    return metadata.entry_points() if any(_GROUPS in text for text in texts) else metadata.EntryPoints()


class Registry(Generic[T]):
    """Case-insensitive mapping from names to objects. Duplicate names are programming errors.

    `kind`: what messages call the objects. `group`: entry point group through which other packages register objects.
    `own`: packages with evalspec's objects. The first lookup imports their modules and registers what they define.
    `of`: type of the objects, which need a method `register`. Without it, each object is registered by a call of `add`.
    """

    def __init__(self, kind: str, group: str, own: Sequence[str] = (), of: type[T] | None = None) -> None:
        self.kind = kind
        self.group = group
        self._own = own
        self._of = of
        self._things: dict[str, T] = {}
        self._names: dict[str, str] = {}
        self._loading = ""
        self._plugins: dict[str, str] = {}
        self._plugins_loaded = False
        self._looking = RLock()  # other threads must not see a part of the names

    def add(self, name: str, thing: T, aliases: Iterable[str] = ()) -> T:
        """Register an object under a canonical name and its aliases, and return it.

        Raises:
            ValueError: One of the names is taken.
        """
        if self._things.get(name) is thing:
            return thing
        for key in (name, *aliases):
            if key.casefold() in self._names:
                raise ValueError(f"{self.kind} '{key}' is registered twice")
        self._things[name] = thing
        self._names |= {key.casefold(): name for key in (name, *aliases)}
        if self._loading:
            self._plugins[name] = self._loading
        return thing

    def find(self, name: str) -> T | None:
        """Return the object with that name or alias, or None."""
        known, canonical = self._known(), self._names.get(name.casefold())
        return None if canonical is None else known.get(canonical)

    def hint(self, name: str) -> str:
        """Return a fix for an unknown name."""
        return near_miss(name, self.names()) + self.note_plugins()

    def note_plugins(self) -> str:
        """Return a note that plugins are not loaded, or an empty string if they are."""
        return "" if self._uses_plugins() else " (--untrusted uses no plugins)"

    def names(self) -> list[str]:
        """Return the canonical names in the order of registration."""
        return list(self._known())

    def __iter__(self) -> Iterator[T]:
        """Iterate over the objects in the order of registration."""
        return iter(list(self._known().values()))

    def _uses_plugins(self) -> bool:
        return current_trust().permits(Act.USE_PLUGINS, self.group)

    def _known(self) -> Mapping[str, T]:
        """Return the usable objects by name: all of them, or only evalspec's own under --untrusted."""
        with self._looking:
            self._load_own()
            if self._uses_plugins():
                self._load_plugins()
                return self._things
        return {name: thing for name, thing in self._things.items() if name not in self._plugins}

    def add_from(self, source: Any) -> None:
        """Add what an entry point names: the things of a module, one thing, or what a function adds.

        Raises:
            TypeError: there is none.
            ValueError: a name is taken.
        """
        things = list(self._list_things(source))
        for thing in things:
            thing.register(self)
        if things:
            return
        known = len(self._things)
        if callable(source):
            source(self)
        if len(self._things) == known:
            raise TypeError(f"it has no {self.kind}")

    def _list_things(self, source: Any) -> Iterator[Any]:
        """A thing, or those at the top level of a module, which may be in tuples."""
        if self._of and isinstance(source, self._of):
            yield source
        elif isinstance(source, ModuleType):
            for value in vars(source).values():
                for one in value if isinstance(value, tuple) else (value,):
                    if not isinstance(one, ModuleType):
                        yield from self._list_things(one)

    def _load_own(self) -> None:
        own, self._own = self._own, ()
        for package in map(import_module, own):
            for found in iter_modules(package.__path__):
                for thing in self._list_things(import_module(f"{package.__name__}.{found.name}")):
                    thing.register(self)

    def _load_plugins(self) -> None:
        """Let installed packages register their objects."""
        if self._plugins_loaded:
            return
        self._plugins_loaded = True
        for plugin in entry_points(group=self.group):
            self._loading = _describe(plugin)
            try:
                self.add_from(plugin.load())
            except (Exception, SystemExit) as error:
                raise InvalidInput(_blame("plugin", error, self._loading)) from error
            finally:
                self._loading = ""

    def is_plugin(self, name: str) -> bool:
        """Return whether another package registered the object with that canonical name."""
        return name in self._plugins

    def origin(self, name: str) -> str:
        """Return the distribution that registered the object with that canonical name; empty for evalspec's own."""
        return self._plugins.get(name, "").partition(": ")[0]

    @contextmanager
    def attribute_errors(self, name: str, fails: Callable[[str], EvalspecError] | None = None) -> Iterator[None]:
        """Name the plugin in errors that the object with that canonical name raises within the block.

        `fails`: makes the error of one sample from a message.

        Raises:
            EvalspecError: A plugin raised another error. Without `fails`, this is an InvalidInput.
        """
        try:
            yield
        except EvalspecError:
            raise
        except (Exception, SystemExit) as error:
            if name not in self._plugins:
                raise
            problem = _blame(f"{self.kind} '{name}'", error, self._plugins[name])
            raise (fails(problem.render()) if fails else InvalidInput(problem)) from error


def _describe(plugin: "metadata.EntryPoint") -> str:
    """Return the place of an entry point: the distribution that has it, its name and its group."""
    place = f"entry point {plugin.name} of group {plugin.group}"
    return f"{plugin.dist.name} {plugin.dist.version}: {place}" if plugin.dist else place


def _blame(what: str, error: BaseException, plugin: str) -> Problem:
    reason = " ".join(f"{type(error).__name__}: {error}".split())
    return Problem(f"{what} failed: {reason}", "fix or uninstall it", field=plugin)
