"""Keeps runs from deleting what another one asks: no two of this project at once, on scopes of a store that overlap.

Each held scope is a locked file in the folder of its store, named by the prefix; who comes looks at all of them first.
"""

import hashlib
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from urllib.parse import quote, unquote

from evalspec.errors import Unmeasurable
from evalspec.retrievers.ingest_plan import IngestPlan

_SUFFIX = ".lock"
_DOOR = "door"
"""The lock that is held while somebody looks at the others; no prefix is named so, for each ends in a delimiter."""
_DOOR_SECONDS = 30


@contextmanager
def hold_scope(plan: IngestPlan, locks: Path) -> Iterator[None]:
    """Hold the scope of a plan; nothing to keep where the store is in memory. `locks`: the project's own folder.

    Raises:
        Unmeasurable: another run holds it, one around it or one in it, or the lock cannot be made.
    """
    from filelock import FileLock, Timeout

    if plan.store is None:
        yield
        return
    folder = locks / hashlib.sha256(plan.store.encode()).hexdigest()[:16]
    own = FileLock(folder / f"{quote(plan.scope_prefix, safe='')}{_SUFFIX}", timeout=0, thread_local=False)
    with ExitStack() as held:
        try:
            folder.mkdir(parents=True, exist_ok=True)
            with FileLock(folder / _DOOR, timeout=_DOOR_SECONDS):
                for path in _find_overlapping(folder, plan.scope_prefix):
                    with FileLock(path, timeout=0):
                        pass
                held.enter_context(own)
        except Timeout as error:
            taken = unquote(Path(error.lock_file).name.removesuffix(_SUFFIX))
            message = f"another run is using '{taken}' of {plan.retriever} ({plan.store})"
            raise Unmeasurable(f"{message}. Wait for it or take another scope prefix; nothing was deleted") from error
        except OSError as error:
            raise Unmeasurable(f"{folder}: {error.strerror or error}. Nothing was deleted") from error
        yield


def _find_overlapping(folder: Path, prefix: str) -> Iterator[Path]:
    """The locks of scopes that this one is in, or that are in it."""
    for path in folder.glob(f"*{_SUFFIX}"):
        other = unquote(path.name.removesuffix(_SUFFIX))
        if other != prefix and (other.startswith(prefix) or prefix.startswith(other)):
            yield path
