"""Working slices of a gold set: samples of its triples for cheap runs, and the share that is held out of all slices.

Each use of the held-out share is a file of its log.
"""

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from msgspec import Struct, field

from evalspec.base.errors import InvalidInput, Problem
from evalspec.base.registry import near_miss
from evalspec.base.trust import require_file
from evalspec.curation.gold.files import read_records, require_records, show, write_record
from evalspec.curation.gold.gold_set import GoldSet, TripleEntry, open_set, read_config, read_entry
from evalspec.curation.gold.identity import find_person, require_person
from evalspec.curation.gold.layout import HELD_OUT, SLICES, TRIPLES
from evalspec.curation.gold.locking import hold
from evalspec.curation.gold.schema import HeldOutUse, SliceFile
from evalspec.curation.gold.states import State
from evalspec.curation.gold.values import render_now, require_name
from evalspec.inputs.datasets.apportionment import apportion_by_remainder
from evalspec.inputs.datasets.base import Part
from evalspec.inputs.datasets.located import render_ids
from evalspec.inputs.datasets.selection import rank_ids
from evalspec.model.fingerprints import PartDigest

STRATA = ("domain", "difficulty", "source")
"""Metadata whose combinations are the strata of a draw."""

REVISED, NOW_HELD_OUT, REMOVED = "revised", "held out", "removed"
NONE = "none"
"""The value of a stratum's key that a triple lacks."""

Stratum = tuple[str, ...]


class Slice(Struct, frozen=True):
    """A slice that was read. `entries`: its triples that are in the set as they were drawn.

    `missing`: ids of the others by cause: a state, `revised`, `held out` (the share grew) or `removed`.
    """

    file: SliceFile
    entries: Sequence[TripleEntry]
    missing: Mapping[str, Sequence[str]]

    @property
    def name(self) -> str:
        """The name of the slice."""
        return self.file.name

    def describe_missing(self) -> str | None:
        """Return the triples that are left out, with causes, as a phrase; None if there are none."""
        if not self.missing:
            return None
        count = sum(map(len, self.missing.values()))
        causes = (f"{len(ids)} {cause} ({render_ids(ids)})" for cause, ids in sorted(self.missing.items()))
        return f"{count:,} of {len(self.file.triples):,} triples are left out: {', '.join(causes)}"


class Pool(Struct, frozen=True):
    """The triples that the next slice can contain. `round`: 2 if all have been in a slice once.

    `held_out`: number of accepted triples in the held-out share. `used`: number in slices of this round.
    """

    entries: Sequence[TripleEntry]
    round: int
    held_out: int
    used: int


class DrawnSlice(Struct, frozen=True):
    """A slice that was just drawn. `pool`: what it was drawn from. `strata`: by stratum, size in the pool and slice."""

    slice: Slice
    pool: Pool
    strata: Mapping[Stratum, tuple[int, int]] = field(default_factory=dict)


def is_held_out(name: str, share: float) -> bool:
    """Return whether a triple belongs to the held-out share.

    A hash of the id decides, so other triples never matter, and a larger share contains a smaller one.
    """
    digest = hashlib.sha256(f"held-out:{name}".encode("utf-8", "surrogatepass")).digest()
    return int.from_bytes(digest[:8]) < share * 2**64


def list_held_out(found: GoldSet) -> list[TripleEntry]:
    """Return the accepted triples of the held-out share."""
    return [entry for entry in found.list_accepted() if is_held_out(entry.id, found.config.rules.held_out)]


def draw_slice(root: Path | str, name: str, size: int, by: str, *, seed: int = 0, at: str | None = None) -> DrawnSlice:
    """Draw a slice from the accepted triples outside the held-out share, and write slices/<name>.yaml.

    The draw is stratified by domain × difficulty × source: places in proportion to the strata by largest remainder, at
    least one for each if the size allows. It depends on the seed, the ids and the strata only. Slices of one round have
    no triple in common.

    Raises:
        InvalidInput: The name is taken or invalid, the size is too large, or the person is unknown. Nothing is written.
    """
    with hold(Path(root)):
        return _draw(open_set(root), name, size, by, seed, at)


def _draw(found: GoldSet, name: str, size: int, by: str, seed: int, at: str | None) -> DrawnSlice:
    require_person(found.config, by)
    slices = read_slices(found.root)
    _refuse_name(name, slices, found.root)
    pool = find_pool(found, slices)
    if not 1 <= size <= len(pool.entries):
        raise InvalidInput(_explain_size(size, pool))
    strata = group_by_stratum(pool.entries)
    places = apportion_by_remainder({stratum: len(entries) for stratum, entries in strata.items()}, size)
    by_id = {entry.id: entry for entry in pool.entries}
    chosen = sorted(
        one
        for stratum, entries in strata.items()
        for one in rank_ids((entry.id for entry in entries), seed)[: places[stratum]]
    )
    file = SliceFile(
        name=name,
        seed=seed,
        size=size,
        round=pool.round,
        drawn_at=at or render_now(),
        drawn_by=by,
        triples=[by_id[one].reference for one in chosen],
    )
    write_record(found.root / SLICES / f"{name}.yaml", file)
    drawn = {stratum: (len(entries), places[stratum]) for stratum, entries in sorted(strata.items())}
    return DrawnSlice(Slice(file, [by_id[one] for one in chosen], {}), pool, drawn)


def read_slices(root: Path) -> dict[str, SliceFile]:
    """Return the slices of a set by name.

    Raises:
        InvalidInput: A file is invalid.
    """
    problems: list[Problem] = []
    slices = _read_slices(root, problems)
    if problems:
        raise InvalidInput(problems)
    return slices


def open_slice(found: GoldSet, name: str) -> Slice:
    """Return a slice with the triples that are still as they were drawn, and the others by cause.

    Raises:
        InvalidInput: There is no such slice, or a slice is invalid.
    """
    slices = read_slices(found.root)
    if name not in slices:
        folder = show(found.root / SLICES)
        fix = f"draw one: evalspec gold slice --size N --name {name} --set {show(found.root)}"
        raise InvalidInput(
            Problem(f"there is no slice '{name}'", near_miss(name, slices) if slices else fix, folder, field="--slice")
        )
    entries: list[TripleEntry] = []
    missing: dict[str, list[str]] = {}
    for one, revision in slices[name].revisions.items():
        cause = _explain_missing(found, one, revision)
        if cause is None:
            entries.append(found.entries[one])
        else:
            missing.setdefault(cause, []).append(one)
    return Slice(slices[name], entries, missing)


def open_slice_alone(root: Path, name: str) -> Slice:
    """Return the same as `open_slice`, reading no other triples if each member has its own file.

    Raises:
        InvalidInput: There is no such slice, or a file is invalid.
    """
    one = read_slices(root).get(name)
    names = () if one is None else tuple(one.revisions)
    if one is None or not all((root / TRIPLES / f"{member}.yaml").is_file() for member in names):
        return open_slice(open_set(root), name)
    entries = {member: read_entry(root, member) for member in names}
    return open_slice(GoldSet(root, read_config(root), entries, has_events=True), name)


def find_pool(found: GoldSet, slices: Mapping[str, SliceFile]) -> Pool:
    """Return the triples that the next slice can contain.

    A triple counts as used by its id, also after a revision. If all are used, a new round begins with all of them.
    """
    share = found.config.rules.held_out
    accepted = found.list_accepted()
    free = [entry for entry in accepted if not is_held_out(entry.id, share)]
    latest = max((one.round for one in slices.values()), default=1)
    used = {name for one in slices.values() if one.round == latest for name in one.revisions}
    left = [entry for entry in free if entry.id not in used]
    held_out = len(accepted) - len(free)
    if free and not left:
        return Pool(free, latest + 1, held_out, 0)
    return Pool(left, latest, held_out, len(free) - len(left))


def group_by_stratum(entries: Sequence[TripleEntry]) -> dict[Stratum, list[TripleEntry]]:
    """Return the triples by domain, difficulty and source; `none` where a triple has no value."""
    strata: dict[Stratum, list[TripleEntry]] = {}
    for entry in entries:
        metadata = None if entry.triple is None else entry.triple.metadata
        values = (getattr(metadata, key, None) for key in STRATA)
        strata.setdefault(tuple(NONE if value is None else str(value) for value in values), []).append(entry)
    return strata


def check_slices(found: GoldSet) -> Iterator[Problem]:
    """Yield what is wrong with the slices: names, sizes, unknown triples, and triples twice in a round."""
    problems: list[Problem] = []
    slices = _read_slices(found.root, problems)
    yield from problems
    seen: dict[tuple[int, str], str] = {}
    for name, one in slices.items():
        file = show(found.root / SLICES / f"{name}.yaml")
        listed = len(one.triples) + len(one.removed)
        if listed != one.size:
            message = f"the slice lists {listed:,} triples, but {one.size:,} were drawn"
            yield Problem(message, "restore it from git: slices are never refilled", file, field="triples")
        unknown = [member for member in one.revisions if member not in found.entries]
        if unknown and not found.problems:
            yield Problem(f"no such triple: {render_ids(unknown)}", "restore it from git", file, field="triples")
        shared: dict[str, list[str]] = {}
        for member in one.revisions:
            first = seen.setdefault((one.round, member), name)
            if first != name:
                shared.setdefault(first, []).append(member)
        for first, members in shared.items():
            message = f"{render_ids(members)} are also in slice '{first}' of round {one.round}"
            fix = "two branches drew at the same time: delete the later slice, and draw it again"
            yield Problem(message, fix, file, field="triples")


def _read_slices(root: Path, problems: list[Problem]) -> dict[str, SliceFile]:
    folder = root / SLICES
    require_file(folder)
    slices: dict[str, SliceFile] = {}
    for path, one in read_records(SliceFile, folder, problems):
        if one.name != path.stem:
            message = f"the slice is '{one.name}', but the file is {path.name}"
            problems.append(Problem(message, "rename one of them", show(path), field="name"))
        slices[path.stem] = one
    return slices


def _explain_missing(found: GoldSet, name: str, revision: int) -> str | None:
    """Return why a member of a slice is not evaluated, or None. A state says more than a revision."""
    entry = found.entries.get(name)
    if entry is None:
        return REMOVED
    if entry.review_status.revision != revision:
        return str(entry.state) if entry.state in (State.REVOKED, State.RETIRED, State.DROPPED) else REVISED
    if not entry.is_accepted:
        return str(entry.state)
    return NOW_HELD_OUT if is_held_out(name, found.config.rules.held_out) else None


def _refuse_name(name: str, slices: Mapping[str, SliceFile], root: Path) -> None:
    require_name(name, "--name")
    taken = {one.casefold(): one for one in slices}.get(name.casefold())
    if taken is not None:
        fix = "choose another name: slices are never refilled"
        raise InvalidInput(Problem(f"the slice '{taken}' exists", fix, show(root / SLICES / f"{taken}.yaml")))


def _explain_size(size: int, pool: Pool) -> Problem:
    largest = len(pool.entries)
    if size < 1:
        return Problem("a slice has at least one triple", "choose a size from 1", field="--size")
    counts = f"{pool.held_out:,} accepted triples are held out, {pool.used:,} are in slices of round {pool.round}"
    if not largest:
        return Problem("no accepted triple can be in a slice", f"have more reviewed; {counts}", field="--size")
    return Problem(
        f"{size:,} is too large: {largest:,} triples are left in round {pool.round}",
        f"use --size {largest} or less ({counts})",
        field="--size",
    )


_NOBODY = "unknown"


def read_uses(root: Path) -> list[HeldOutUse]:
    """Return the uses of a set's held-out share, in the order of their runs.

    Raises:
        InvalidInput: A file is invalid.
    """
    folder = root / HELD_OUT
    require_file(folder)
    return sorted((use for _, use in require_records(HeldOutUse, folder)), key=lambda use: use.run)


def log_use(root: Path, run: str, by: str | None = None, at: str | None = None) -> HeldOutUse:
    """Add a use to the log. `run`: id of the run. `by`: a person of the set; by default the one that git knows.

    Raises:
        InvalidInput: The file cannot be written.
    """
    use = HeldOutUse(run=run, at=at or render_now(), by=by or _find_person(root))
    write_record(root / HELD_OUT / f"{run}-{use.by or _NOBODY}.yaml", use)
    return use


def describe_uses(uses: Sequence[HeldOutUse]) -> str:
    """Return how often the share was used before, as the rest of a sentence about it."""
    if not uses:
        return "was not used before"
    times = "once" if len(uses) == 1 else f"{len(uses):,} times"
    latest = uses[-1]
    return f"was used {times} before, last on {latest.at[:10]}{f' by {latest.by}' if latest.by else ''}"


def _find_person(root: Path) -> str | None:
    try:
        return find_person(root, read_config(root))
    except InvalidInput:
        return None


def open_part(root: Path, name: str | None) -> Part:
    """Return the slice of this name, or for None the held-out share.

    Raises:
        InvalidInput: There is no such slice, or the set cannot be read.
    """
    if name is None:
        share, uses = read_config(root).rules.held_out, read_uses(root)
        note = f"the held-out share {describe_uses(uses)}; each use makes it less independent"
        details = PartDigest(held_out=True, uses_before=len(uses))
        return Part(lambda one: is_held_out(one, share), details, note=note)
    found = open_slice_alone(root, name)
    members = {entry.id for entry in found.entries}
    missing = {cause: len(ids) for cause, ids in sorted(found.missing.items())}
    details = PartDigest(found.name, len(found.file.triples), missing)
    return Part(members.__contains__, details, found.describe_missing())
