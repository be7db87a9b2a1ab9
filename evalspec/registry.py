"""One kind of registry for everything that is found by name: metrics, dataset formats, reporters."""

import difflib
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from importlib import import_module
from importlib.metadata import entry_points
from pkgutil import iter_modules
from types import ModuleType
from typing import Any, Generic, TypeVar

from evalspec.errors import EvalspecError, InvalidInput, Problem
from evalspec.trust import Act, in_force

T = TypeVar("T")


def near_miss(name: str, known: Iterable[str]) -> str:
    """A fix for a name that is not known: the likeliest meant one, or all of them where none is close."""
    names = sorted(known)
    by_folded = {candidate.casefold(): candidate for candidate in names}
    close = difflib.get_close_matches(name.casefold(), by_folded, n=1, cutoff=0.6)
    return f"did you mean '{by_folded[close[0]]}'?" if close else f"known: {', '.join(names)}"


class Registry(Generic[T]):
    """Names to things, without regard to case. A second thing of one name is a programming error and refused.

    `kind` names the things in messages; `group` is the entry point group through which other packages add theirs.
    `own` is the package of evalspec's: at the first look-up, each module in it adds what it defines. `of`: the type of
    the things, which then have a method `register`; without it, they are added one by one.
    """

    def __init__(self, kind: str, group: str, own: str = "", of: type[T] | None = None) -> None:
        self.kind = kind
        self.group = group
        self._own = own
        self._of = of
        self._things: dict[str, T] = {}
        self._names: dict[str, str] = {}
        self._loading = ""
        self._plugins: dict[str, str] = {}
        self._plugins_loaded = False

    def add(self, name: str, thing: T, aliases: Iterable[str] = ()) -> T:
        """Register under a canonical name and its aliases.

        Raises:
            ValueError: one of the names is taken.
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
        """The thing of that name or alias, or None."""
        known, canonical = self._known(), self._names.get(name.casefold())
        return None if canonical is None else known.get(canonical)

    def hint(self, name: str) -> str:
        """What to write instead of an unknown name."""
        return near_miss(name, self.names()) + self.note_plugins()

    def note_plugins(self) -> str:
        """What to add to the names that are known, where those of other packages are not."""
        return "" if self._uses_plugins() else " (--untrusted uses no plugins)"

    def names(self) -> list[str]:
        """Canonical names in the order of registration."""
        return list(self._known())

    def __iter__(self) -> Iterator[T]:
        """The things in the order of registration."""
        return iter(list(self._known().values()))

    def _uses_plugins(self) -> bool:
        return in_force().permits(Act.USE_PLUGINS, self.group)

    def _known(self) -> Mapping[str, T]:
        """What may be used now: all, or only what is not of another package."""
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
        if not callable(source):
            raise TypeError(f"it has no {self.kind}")
        source(self)

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
        if self._own:
            package, self._own = import_module(self._own), ""
            for found in iter_modules(package.__path__):
                for thing in self._list_things(import_module(f"{package.__name__}.{found.name}")):
                    thing.register(self)

    def _load_plugins(self) -> None:
        """Let installed packages register theirs."""
        if self._plugins_loaded:
            return
        self._plugins_loaded = True
        for plugin in entry_points(group=self.group):
            self._loading = f"entry point {plugin.name} of group {self.group}"
            try:
                self.add_from(plugin.load())
            except (Exception, SystemExit) as error:
                raise InvalidInput(_blame("plugin", error, self._loading)) from error
            finally:
                self._loading = ""

    def is_plugin(self, name: str) -> bool:
        """Whether the thing of that canonical name is another package's."""
        return name in self._plugins

    @contextmanager
    def blaming(self, name: str) -> Iterator[None]:
        """A block that runs code of the thing of that canonical name: what a plugin raises names the plugin.

        Raises:
            InvalidInput: a plugin raised something that is no error of ours.
        """
        try:
            yield
        except EvalspecError:
            raise
        except (Exception, SystemExit) as error:
            if name not in self._plugins:
                raise
            raise InvalidInput(_blame(f"{self.kind} '{name}'", error, self._plugins[name])) from error


def _blame(what: str, error: BaseException, plugin: str) -> Problem:
    reason = " ".join(f"{type(error).__name__}: {error}".split())
    return Problem(f"{what} failed: {reason}", "mend or uninstall it", field=plugin)
