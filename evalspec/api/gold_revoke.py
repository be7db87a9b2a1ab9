"""Revoke the permission of a customer everywhere in a project: the gold set, exports, stored runs, baselines."""

from collections.abc import Callable, Iterable, Sequence
from contextlib import nullcontext
from datetime import date
from pathlib import Path

from msgspec import Struct, field

from evalspec.api.erasure import Erased, erase_cached, erase_labels_on, erase_run, shorten_baselines
from evalspec.api.gold_export import find_export, list_exports, shorten_export
from evalspec.base.errors import InvalidInput
from evalspec.curation.gold.files import show
from evalspec.curation.gold.gold_set import GoldSet, open_set, read_config
from evalspec.curation.gold.identity import require_person
from evalspec.curation.gold.leaks import list_terms
from evalspec.curation.gold.locking import hold
from evalspec.curation.gold.permission import find_today, grant_path
from evalspec.curation.gold.quotes import Ids, Quotes, find_quoting
from evalspec.curation.gold.redaction import find_terms
from evalspec.curation.gold.revoking import (
    Content,
    describe_git,
    find_blocks,
    find_content,
    find_exceptions,
    find_slices,
    list_changing,
    mark_revoked,
    remove_temporary,
    shorten_slice,
    write_tombstone,
    write_tombstones,
)
from evalspec.curation.gold.schema import Export
from evalspec.model.log import InputRecord
from evalspec.runs.store.erasing import Key, Wanted
from evalspec.runs.store.run_log import DESCRIPTION_NAME
from evalspec.runs.store.run_store import STORE, RunStore
from evalspec.runs.store.stored_run import StoredRun

_LONG_LINE = 40
"""Shorter lines of a passage may be in any text."""
_SHORTEST_TERM = 4
_SLICE_KEYS = ("domain", "difficulty", "source", "customer", "failure_mode", "traffic")
"""Metadata of erased samples that stays in runs, because their results are sliced by it."""


class Revocation(Erased):
    """What a revocation changed, or would change. Paths are relative to the working directory.

    `slices`: removed members by file. `stores`, `folders`: what was searched for stored runs, and for baselines and
    files that quote the customer.
    """

    customer: str = ""
    triples: list[str] = field(default_factory=list)
    blocks: list[str] = field(default_factory=list)
    slices: dict[str, list[str]] = field(default_factory=dict)
    exports: list[str] = field(default_factory=list)
    removed_runs: list[str] = field(default_factory=list)
    stores: list[str] = field(default_factory=list)
    folders: list[str] = field(default_factory=list)


class _Runs(Struct):
    """What stored runs know. `keys`: by run, the erased samples, with their names in baselines.

    `folders`: of runs with such samples. `removed`: folders of removed runs. `own`, `other`: names of datasets that are
    the set or an export, and of others.
    """

    keys: dict[str, set[Key]] = field(default_factory=dict)
    folders: list[Path] = field(default_factory=list)
    removed: list[Path] = field(default_factory=list)
    own: set[str] = field(default_factory=set)
    other: set[str] = field(default_factory=set)


def revoke(
    root: Path,
    customer: str,
    by: str,
    *,
    store: Path | None = None,
    project: Path | None = None,
    dry_run: bool = False,
    today: date | None = None,
) -> Revocation:
    """Delete a customer's text from a gold set and from what evalspec made of it, and list what is out of reach.

    The grant is marked as revoked first, and the triples are deleted last. So a killed revocation is completed when it
    is run again.

    Args:
        root: Folder of the set.
        customer: Name of the customer.
        by: The acting person.
        store: Folder of the runs; by default that of the working directory, and those above the set up to the root of
            its repository.
        project: Folder that is searched for baselines and for files that quote the customer; by default the working
            directory, and the folders of these stores.
        dry_run: Change nothing.
        today: By default the current date in UTC.

    Raises:
        InvalidInput: The set is invalid, or has no such customer.
    """
    require_person(read_config(root), by)
    stores = [store] if store else _find_stores(root)
    folders = [project] if project else _find_folders(stores)
    with nullcontext() if dry_run else hold(root):
        return _revoke(open_set(root), customer, by, stores, folders, today or find_today(), is_dry_run=dry_run)


def _find_stores(root: Path) -> list[Path]:
    """Return the stores with runs of the working directory, and of the folders from a set to its repository's root."""
    above = [root.resolve(), *root.resolve().parents]
    depth = next((depth for depth, folder in enumerate(above, 1) if (folder / ".git").exists()), 0)
    places = {path.resolve(): path for path in (STORE, *(folder / STORE for folder in above[:depth]))}
    return [path for path in places.values() if RunStore(path).runs.is_dir()]


def _find_folders(stores: Iterable[Path]) -> list[Path]:
    """Return the working directory and the folders of stores, without those that are inside another one."""
    places = {path.resolve(): path for path in (*(store.parent for store in stores), Path())}
    return [path for place, path in places.items() if not places.keys() & set(place.parents)]


def _revoke(
    found: GoldSet,
    customer: str,
    by: str,
    stores: Sequence[Path],
    folders: Sequence[Path],
    today: date,
    *,
    is_dry_run: bool,
) -> Revocation:
    content = find_content(found, customer)
    done = Revocation(is_dry_run, customer=customer, triples=[entry.id for entry in content.entries])
    done.stores, done.folders = [show(store) for store in stores], [show(folder) for folder in folders]
    quotes = Quotes(content.texts)
    searches = _make_searches(found, content, quotes)
    if not is_dry_run:
        mark_revoked(found, customer, today)
    exports = list_exports(found.root)
    changing = [path.resolve() for path in list_changing(found, content)]
    runs = _Runs()
    for store in stores:
        _erase_runs(found, content, RunStore(store), [made for _, made in exports], done, runs)
        ids = {(name, one) for name in runs.own for one in content.ids}
        erase_cached(RunStore(store), ids.union(*runs.keys.values()), quotes, done)
        erase_labels_on(store, runs.keys, content.ids, quotes, done)
    find_keys = _name_in_baselines(found, content, runs)
    for folder in folders:
        shorten_baselines(folder, find_keys, show, quotes, done)
    _shorten_exports(found.root, content, exports, done)
    _change_set(found, content, by, today, done)
    changing += [Path(name).resolve() for name in (*done.exports, *done.baselines)]
    changing += [*runs.folders, *runs.removed, *(RunStore(store).cache.resolve() for store in stores)]
    _list_files(found, content, searches, folders, changing if is_dry_run else [], runs.folders, done)
    _list_unreachable(found, content, stores, done)
    return done


def _change_set(found: GoldSet, content: Content, by: str, today: date, done: Revocation) -> None:
    blocks, slices = find_blocks(found, content), find_slices(found, content)
    done.blocks = [show(path) for path in blocks]
    done.slices = {show(path): members for path, members in slices.items()}
    if done.is_dry_run:
        return
    for path, members in slices.items():
        shorten_slice(path, members)
    for path in [*find_exceptions(found, content), *blocks]:
        path.unlink(missing_ok=True)
    for name in content.tombstones:
        write_tombstones(found, found.entries[name])
    remove_temporary(found.root)
    for entry in content.entries:
        write_tombstone(found, entry, by, today)


def _erase_runs(
    found: GoldSet, content: Content, store: RunStore, exports: list[Export], done: Revocation, runs: _Runs
) -> None:
    """Erase the texts from all runs of a store."""
    places = {found.root.resolve(), *((found.root / made.path).resolve() for made in exports)}
    asks, quotes = Quotes(content.questions), Quotes(content.texts)

    def describe_wanted(stored: StoredRun) -> Wanted:
        return _describe_wanted(stored, content, _find_own(stored, places), asks, quotes)

    for folder in store.list():
        stored, samples = erase_run(folder, describe_wanted, done)
        if stored is None:
            continue
        own = _find_own(stored, places)
        runs.keys[stored.id] = samples
        runs.own |= own
        runs.other |= {one.name for one in stored.fingerprint.datasets} - own
        if samples:
            runs.folders.append(folder.resolve())
    for folder in (one for one in store.list_all() if not (one / DESCRIPTION_NAME).is_file()):
        quoting, _ = find_quoting(folder, quotes)
        if quoting:
            done.removed_runs.append(folder.name)
            runs.removed.append(folder.resolve())
            if not done.is_dry_run:
                store.remove(folder)


def _find_own(stored: StoredRun, places: set[Path]) -> set[str]:
    """Return the names of a run's datasets that are the set or an export of it. Their paths start at the store."""
    start = stored.folder.resolve().parents[2]
    files = {one.name: (start / one.file).resolve() for one in stored.fingerprint.datasets if one.file}
    return {name for name, path in files.items() if path in places or places & set(path.parents)}


def _describe_wanted(stored: StoredRun, content: Content, own: set[str], asks: Quotes, quotes: Quotes) -> Wanted:
    from evalspec.runs.runner.session import metadata_keys

    def is_wanted(record: InputRecord) -> bool:
        is_named = record.sample.metadata.get("customer") == content.customer
        return is_named or (record.dataset in own and record.sample.id in content.ids)

    return Wanted(is_wanted, asks, quotes, {*_SLICE_KEYS, *metadata_keys(stored.outline)})


def _name_in_baselines(found: GoldSet, content: Content, runs: _Runs) -> Callable[[str], set[Key]]:
    """Return what names the revoked samples of a baseline, by the id of its run.

    The stored run of a baseline knows them. Without it, a dataset counts that has the name of the set, unless runs only
    know another dataset of that name.
    """
    names = {found.config.name, found.root.resolve().name} - (runs.other - runs.own)
    known = {(name, one) for name in names for one in content.ids}.union(*runs.keys.values())
    return lambda run: runs.keys.get(run, known)


def _shorten_exports(root: Path, content: Content, exports: list[tuple[Path, Export]], done: Revocation) -> None:
    for record, made in exports:
        if not any(one.rpartition("@")[0] in content.ids for one in made.triples):
            continue
        path = find_export(root, made)
        if made.is_public:
            done.unreachable.append(f"{show(path)} was exported to be published: delete it and its copies")
            continue
        if path.exists():
            done.exports.append(show(path))
        else:
            done.unreachable.append(f"{show(path)} was exported and is gone: delete its copies")
        if not done.is_dry_run:
            try:
                shorten_export(root, record, made, content.ids)
            except InvalidInput as error:
                done.failed.append(str(error))


_STILL = (
    "still quotes the customer",
    "has a passage that only these triples pinned",
    "has a term of the grant",
    "has the id of a revoked triple, and may quote an earlier wording",
)
"""What a file has, by the number of the search that found it."""


def _make_searches(found: GoldSet, content: Content, quotes: Quotes) -> Sequence[Quotes | Ids]:
    """Return the searches for what is left, before the texts are deleted. Passages are searched line by line."""
    pinned = (path.read_text("utf-8", errors="replace") for path in find_blocks(found, content))
    lines = (line for text in pinned for line in text.splitlines() if len(line) >= _LONG_LINE)
    grant = found.grants.get(content.customer)
    return quotes, Quotes(lines), Quotes(grant.terms if grant else (), shortest=_SHORTEST_TERM), Ids(content.ids)


def _list_files(
    found: GoldSet,
    content: Content,
    searches: Sequence[Quotes | Ids],
    folders: Sequence[Path],
    changing: list[Path],
    erased: list[Path],
    done: Revocation,
) -> None:
    """List the files that still have texts or ids of the customer, its passages, or terms of its grant.

    `changing`: what a dry run leaves out, because the revocation changes it. `erased`: runs, which keep their ids.
    """
    inside = found.root.resolve()
    quoting: dict[Path, int] = {}
    unread: list[Path] = []
    is_inside = _is_in(found.root.resolve(), [folder.resolve() for folder in folders])
    for folder in folders if is_inside else (*folders, found.root):
        more, more_unread = find_quoting(folder, *searches)
        quoting |= more
        unread += more_unread
    for path, test in quoting.items():
        place = path.resolve()
        is_known = _is_in(place, [inside]) and test >= _STILL.index("has a term of the grant")  # listed below, or kept
        if not (_is_in(place, changing) or is_known or (test == len(_STILL) - 1 and _is_in(place, erased))):
            done.unreachable.append(f"{show(path)} {_STILL[test]}")
    done.unreachable += [f"{show(path)} cannot be searched" for path in unread]
    if content.tombstones and not content.entries:
        done.unreachable.append(
            "files that quote triples without their ids: the texts are deleted, so only ids are known"
        )
    grant = found.grants.get(content.customer)
    for problem in list_terms(found.root, {content.customer: grant.terms}) if grant else ():
        if not _is_in(Path(problem.file).resolve(), changing):
            done.unreachable.append(
                f"{problem.file}{f':{problem.line}' if problem.line else ''} has a term of the grant"
            )
    if grant:
        kept = show(grant_path(found.root, content.customer))
        done.unreachable.append(f"{kept} keeps the evidence and the terms, so that `gold lint` finds what comes back")


def _is_in(path: Path, places: Iterable[Path]) -> bool:
    return any(path.is_relative_to(place) for place in places)


def _list_unreachable(found: GoldSet, content: Content, stores: Sequence[Path], done: Revocation) -> None:
    grant = found.grants.get(content.customer)
    every = [name for store in stores for name in RunStore(store).labels()]
    labels = [name for name in every if grant is not None and find_terms(name, grant.terms)]
    if not stores:
        missing = "stored runs: none are here or above the set; where evaluations ran elsewhere, run this there"
        done.unreachable.append(missing)
    done.unreachable += [f"the label '{name}' has a term of the grant" for name in labels]
    done.unreachable += describe_git(found.root, content)
    done.unreachable += [
        "other clones, backups and caches of CI",
        "reports and datasets that were written or sent elsewhere, and published exports",
    ]
