"""The judge's cache for one run: results for the same question are taken from it, and asked only once.

A cache never costs a run: where it cannot be read or written, one warning says so, and the judge is asked. See
docs/explanation/judge-cache.md for what a result depends on.
"""

import asyncio
import hashlib
import re
from collections.abc import Awaitable, Callable, Iterator, Mapping
from datetime import UTC, datetime
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Generic, TypeVar
from weakref import WeakValueDictionary

from msgspec import Struct, ValidationError, convert, to_builtins
from msgspec.structs import replace

from evalspec.base.errors import StoreError
from evalspec.base.json_text import compute_digest
from evalspec.model.base import built
from evalspec.scoring.judge.cache_file import CacheEntry, CacheFile, DamagedEntry, render_time
from evalspec.scoring.judge.extraction import UnusableVerdict
from evalspec.scoring.judge.grading import Grading
from evalspec.scoring.judge.usage import JudgeListener, Learned, UsageLedger
from evalspec.scoring.judge.verdicts import NothingStated

T = TypeVar("T")
Change = Callable[[Any], Any]

_OF_RAGAS = ("prompt/**/*.py", "metrics/[a-z]*.py", "metrics/collections/base.py")
"""Sources of ragas that all its metrics use."""
_DATE_LENGTH = 10
_PART_DIGITS = 12
_SCORE = "score"
_PARTS = {"fields": "texts", "scorer": "code of the metric", "template": "rubric"}
"""Names of parts of a question for users, where they differ."""

_TURNS: WeakValueDictionary[tuple[asyncio.AbstractEventLoop, str], asyncio.Lock] = WeakValueDictionary()
"""Questions that are being asked, in all runs of a loop."""


class Question(Struct, Generic[T], frozen=True):
    """What is asked for a score. `inputs`: all texts and settings that the result depends on.

    `fields`: names and texts in which the judge may find no statement. `kind`: the type of the result. `check`: raises
    an exception if the result must not become a score. `strip`: returns the result without texts; None: there is
    nothing left without them. `level`: the kind of its entries.
    """

    metric: str
    inputs: Mapping[str, Any]
    kind: Any
    check: Callable[[T], object]
    fields: Mapping[str, Any] = {}
    strip: Callable[[T], T] | None = None
    level: str = _SCORE


class JudgeCache:
    """The cache as one run sees it. `run`: the run's id.

    `has_texts`: whether results are kept with their texts. `is_fresh`: whether everything is asked, and only written.
    `hide`, `restore`: replace secret values in what is written, and bring them back in what is read.
    """

    def __init__(
        self,
        file: CacheFile,
        run: str,
        *,
        hide: Change,
        restore: Change,
        has_texts: bool = True,
        is_fresh: bool = False,
    ) -> None:
        self._file = file
        self._run = run
        self._hide, self._restore = hide, restore
        self._has_texts = has_texts
        self._is_fresh = is_fresh
        self._hits: set[str] = set()
        self._since: dict[str, tuple[str, set[str]]] = {}
        self._is_off = self._told_of_damage = False
        self._usage = UsageLedger()
        self._listener = JudgeListener()

    def report_to(self, usage: UsageLedger, listener: JudgeListener) -> None:
        """Count results in a ledger, and tell a listener about them and about failures."""
        self._usage, self._listener = usage, listener

    @property
    def may_answer(self) -> bool:
        """Whether there are entries, so that the judge may not be needed."""
        return not self._is_fresh and self._file.exists()

    async def recall(self, question: Question[T], grading: Grading, ask: Callable[[], Awaitable[T]]) -> T:
        """Return the result for a question from the cache, or ask and write it.

        Raises:
            NothingStated: the judge found no statement in a field, now or when it was asked.
        """
        key = compute_digest([question.metric, question.inputs, grading.reply])
        turn = _TURNS.setdefault((asyncio.get_running_loop(), key), asyncio.Lock())
        async with turn:  # a second asker finds what the first one wrote
            found = await self._find(key, question)
            if found is not None:
                self._usage.count_cached(question.metric)
                return self._use(key, question, *found)
            try:
                result = await ask()
            except NothingStated as nothing:
                name = next((name for name, text in question.fields.items() if text == nothing.text), None)
                if name is not None:
                    self._keep(key, question, grading, {"nothing": name}, is_bare=False)
                raise
            self._keep_result(key, question, grading, result)
            return result

    async def find(self, question: Question[T], grading: Grading) -> T | None:
        """Return the result for a question from the cache, None if it has none.

        What it says about the judge belongs to the grading, as if the judge had just replied.
        """
        key = compute_digest([question.inputs, grading.reply])
        found = await self._find(key, question)
        if found is None:
            return None
        grading.learn(found[0].learned)
        return self._use(key, question, *found)

    def keep(self, question: Question[T], grading: Grading, result: T) -> None:
        """Write a result that `find` is to return."""
        self._keep_result(compute_digest([question.inputs, grading.reply]), question, grading, result)

    def close(self) -> None:
        """Write what was used, and close the file."""
        if not self._is_off and self._file.exists():
            try:
                self._file.finish(self._run, {*map(self._file.compute_key, self._hits)}, datetime.now(UTC))
            except StoreError as error:
                self._stop(error)
        self._file.close()

    async def fetch(self, key: str, metric: str) -> CacheEntry | None:  # noqa: ARG002 - for those who ask elsewhere
        """Return the entry with the digest `key`. A damaged one is removed and reported once."""
        if self._is_off or self._is_fresh:
            return None
        try:
            entry = self._file.find(self._file.compute_key(key), datetime.now(UTC))
        except (DamagedEntry, TypeError) as error:
            self._report_damage(key, error)
        except StoreError as error:
            self._stop(error)
        else:
            return None if entry is not None and entry.is_bare and self._has_texts else entry
        return None

    def write(self, key: str, entry: CacheEntry) -> None:
        """Write an entry under its digest. Digests of its parts are stored as keyed hashes."""
        if self._is_off:
            return
        try:
            parts = {name: self._file.compute_key(one).hex()[:_PART_DIGITS] for name, one in entry.parts.items()}
            self._file.keep(self._file.compute_key(key), replace(entry, parts=parts), self._run)
        except StoreError as error:
            self._stop(error)

    def note_use(self, key: str, metric: str, entry: CacheEntry) -> None:
        """Note that an entry was used for a metric, and tell what it says about the judge."""
        self._hits.add(key)
        self._listener.learns(self._describe(metric, entry))

    async def _find(self, key: str, question: Question[T]) -> tuple[CacheEntry, T | NothingStated] | None:
        """Return a usable entry with its result. One that is not is removed and reported once."""
        entry = await self.fetch(key, question.metric)
        if entry is None:
            return None
        try:
            return entry, self._read(entry, question)
        except (ValidationError, UnusableVerdict, LookupError, TypeError) as error:
            self._report_damage(key, error)
        return None

    def _read(self, entry: CacheEntry, question: Question[T]) -> T | NothingStated:
        value = self._restore(entry.value)
        if "nothing" in value:
            return NothingStated(question.fields[value["nothing"]])
        result: T = convert(value["result"], built(question.kind))
        if not entry.is_bare:
            question.check(result)
        return result

    def _use(self, key: str, question: Question[T], entry: CacheEntry, result: T | NothingStated) -> T:
        self.note_use(key, question.metric, entry)
        if isinstance(result, NothingStated):
            raise result
        return result

    def _describe(self, metric: str, entry: CacheEntry) -> Learned:
        """Return what an entry says about the judge, and since when the entries of its metric were asked."""
        models = entry.learned.get("judge_models", {})
        oldest, named = self._since.get(metric, (entry.asked, set()))
        oldest, named = min(oldest, entry.asked), named | {*models.values()}
        self._since[metric] = oldest, named
        said = f"{oldest[:_DATE_LENGTH]}, by {', '.join(sorted(named)) or 'an unnamed model'}"
        return {**entry.learned, "judge_cached_models": models, "judge_cached": {metric: said}}

    def _keep_result(self, key: str, question: Question[T], grading: Grading, result: T) -> None:
        """Write a result that passes its check. Without texts, write what is left of it."""
        try:
            question.check(result)
        except UnusableVerdict:
            return
        if self._has_texts:
            self._keep(key, question, grading, {"result": to_builtins(result)}, is_bare=False)
        elif question.strip is not None:
            self._keep(key, question, grading, {"result": to_builtins(question.strip(result))}, is_bare=True)

    def _keep(self, key: str, question: Question[T], grading: Grading, value: Any, *, is_bare: bool) -> None:
        dataset, name = self._hide(["", ""] if grading.reply is None else [*grading.reply.sample])
        asked = render_time(datetime.now(UTC))
        learned = self._hide(grading.learned)
        entry = CacheEntry(question.level, question.metric, (dataset, name), asked, self._hide(value), learned, is_bare)
        if question.level == _SCORE:  # so that `cache explain` can name what has changed
            digests = {_PARTS.get(name, name): compute_digest(part) for name, part in question.inputs.items()}
            entry = replace(entry, parts=digests)
        self.write(key, entry)

    def _report_damage(self, key: str, error: Exception) -> None:
        if not self._told_of_damage:
            self._told_of_damage = True
            why = str(error) or "it is not as it was written"
            self._listener.says(f"an entry of the judge's cache is damaged, so the judge is asked again: {why}")
        self._remove(key)

    def _remove(self, key: str) -> None:
        try:
            self._file.remove(self._file.compute_key(key))
        except StoreError as failure:
            self._stop(failure)

    def _stop(self, error: StoreError) -> None:
        if not self._is_off:
            self._is_off = True
            self._listener.says(f"the judge's cache is not used: {error}")


def digest_installed(package: str) -> str:
    """Return the version of a distribution, without importing it."""
    try:
        return version(package)
    except PackageNotFoundError:
        return ""


@cache
def digest_scorer(ragas_class: str) -> str:
    """Return a digest of the code behind a metric of ragas: our checks, and ragas' version and sources of it.

    They are read and not imported. A metric of one's own, without a class of ragas, has the sources that all use.
    """
    name = re.sub(r"(?<!^)(?=[A-Z])", "_", ragas_class).lower()
    digest = hashlib.sha256(digest_installed("ragas").encode())
    for path in [*sorted(Path(__file__).parent.glob("*.py")), *_list_ragas_files(name)]:
        content = path.read_bytes()
        digest.update(f"{path.name} {len(content)}\n".encode() + content)
    return digest.hexdigest()


def _list_ragas_files(name: str) -> Iterator[Path]:
    found = find_spec("ragas")
    if found is None or found.origin is None:
        return
    for pattern in (*_OF_RAGAS, f"metrics/collections/{name}/**/*.py"):
        yield from sorted(Path(found.origin).parent.glob(pattern))
