"""A gold set: a folder with set.yaml, triples, and the events that say who did what."""

import os
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from datetime import date
from pathlib import Path

from msgspec import Struct, field
from msgspec.structs import replace

from evalspec.base.errors import InvalidInput, Problem
from evalspec.base.registry import near_miss
from evalspec.base.trust import require_file
from evalspec.curation.gold.files import (
    YamlFile,
    compute_hash,
    explain_link,
    list_files,
    read_documents,
    read_record,
    read_records,
    refuse_stream,
    show,
    to_plain,
)
from evalspec.curation.gold.layout import EVENTS, PARTS, SET_FILE, TRIPLES
from evalspec.curation.gold.permission import explain_no_permission, find_today, read_grants
from evalspec.curation.gold.schema import Event, GoldTriple, Grant, Kind, SetFile, TripleSource
from evalspec.curation.gold.states import ACCEPTING, AUTHORING, ReviewStatus, State, compute_review_status
from evalspec.inputs.datasets.located import parse_record, problem_at

_WHERE_SETS_ARE = ("gold/*", "evals/gold/*")
_KINDS = {kind: place for place, kind in enumerate(Kind)}
_REVIEWED = frozenset({"source", "customer", "generated_by", "added_by"})
"""Metadata that reviewers vouch for. Other metadata may be corrected without new reviews."""


class EventFile(Struct, frozen=True):
    """An event and its file."""

    event: Event
    path: Path


class TripleEntry(Struct):
    """One triple of a set. `triple`: None if its customer revoked it. `document`: its YAML, for lines in messages."""

    id: str
    path: Path
    triple: GoldTriple | None
    document: YamlFile | None
    events: Sequence[EventFile]
    review_status: ReviewStatus
    content_hash: str = ""

    @property
    def state(self) -> State:
        """The state of the triple."""
        return self.review_status.state

    @property
    def is_stress(self) -> bool:
        """Whether a model wrote the triple and too few people have confirmed it."""
        is_open = self.state in (State.PENDING, State.DISPUTED)
        return is_open and self.triple is not None and self.triple.metadata.generated_by is not None

    @property
    def is_accepted(self) -> bool:
        """Whether the triple belongs to the set."""
        return self.state is State.ACCEPTED

    @property
    def reference(self) -> str:
        """The id and the revision, as slices list it; the id alone if no event records the content."""
        return f"{self.id}@{self.review_status.revision}" if self.review_status.revision else self.id

    @property
    def customer(self) -> str | None:
        """The customer whose permission the triple needs."""
        return None if self.triple is None else self.triple.metadata.customer

    @property
    def customers(self) -> set[str]:
        """The customers of all revisions: what was once a customer's stays so."""
        recorded = {one.event.customer for one in self.events}
        return {name for name in (self.customer, *recorded) if name is not None}

    @property
    def source(self) -> TripleSource | None:
        """Where the question comes from."""
        return None if self.triple is None else self.triple.metadata.source


class GoldSet(Struct):
    """A set that was read. `problems`: what is wrong with its files; entries of unreadable triples are missing.

    `has_events`: whether states come from events, not from the metadata of the triples. `grants`: by customer.
    """

    root: Path
    config: SetFile
    entries: Mapping[str, TripleEntry]
    has_events: bool
    problems: Sequence[Problem] = field(default_factory=list)
    grants: Mapping[str, Grant] = field(default_factory=dict)

    def find(self, name: str) -> TripleEntry:
        """Return the entry of an id.

        Raises:
            InvalidInput: There is none, or its files are invalid.
        """
        return _require(name, self.entries, self.problems, self.root)

    def list_accepted(self) -> list[TripleEntry]:
        """Return the triples that belong to the set, in the order of their ids."""
        return [entry for entry in self.entries.values() if entry.is_accepted]

    def count_states(self) -> dict[State, int]:
        """Return the number of triples in each state."""
        counts = Counter(entry.state for entry in self.entries.values())
        return {state: counts[state] for state in State}


def find_set(given: Path | str | None = None) -> Path:
    """Return the folder of a set: the given one, or the only one under `gold/` and `evals/gold/`.

    Raises:
        InvalidInput: The folder has no set.yaml, or there is not exactly one set.
    """
    if given is not None:
        root = Path(given)
        if not (root / SET_FILE).is_file():
            fix = f"create one with: evalspec gold init {root} --person NAME"
            raise InvalidInput(Problem(f"there is no {SET_FILE}", fix, show(root)))
        return root
    found = list_sets(Path())
    if len(found) != 1:
        named = ", ".join(map(str, found)) or "none"
        raise InvalidInput(Problem(f"found {len(found)} gold sets under gold/ and evals/gold/: {named}", "give --set"))
    return found[0]


def list_sets(folder: Path) -> list[Path]:
    """Return the folders of the sets under `gold/` and `evals/gold/` of a folder, sorted."""
    return sorted(path.parent for pattern in _WHERE_SETS_ARE for path in folder.glob(f"{pattern}/{SET_FILE}"))


def read_config(root: Path) -> SetFile:
    """Return set.yaml of a set.

    Raises:
        InvalidInput: It is missing or invalid, or a part of the set is a symbolic link.
    """
    problems = [explain_link(show(root / name)) for name in PARTS if (root / name).is_symlink()]
    refuse_stream(root / SET_FILE)
    config = read_record(SetFile, root / SET_FILE, problems)
    if config is None or problems:
        raise InvalidInput(problems)
    return config


def open_set(root: Path | str) -> GoldSet:
    """Return a whole set, all of whose files are readable.

    Raises:
        InvalidInput: A file is invalid.
    """
    found = read_set(Path(root))
    if found.problems:
        raise InvalidInput(found.problems)
    return found


def read_set(root: Path, today: date | None = None) -> GoldSet:
    """Return a set with the problems of its files. Triples that a customer does not permit on a day are revoked.

    `today`: by default the current date in UTC.

    Raises:
        InvalidInput: set.yaml is missing or invalid.
    """
    config, problems = read_config(root), list[Problem]()
    require_file(root)
    has_events = _has_events(root)
    entries: dict[str, TripleEntry] = {}
    for path in list_files(root / TRIPLES, show(root / TRIPLES), problems):
        for name, triple, document in _read_triples(path, problems):
            if name in entries:
                fix = "give each triple an id of its own"
                message = f"the id '{name}' is also in {show(entries[name].path)}"
                problems.append(problem_at(document, ("id",), message, fix))
            else:
                events = _read_events(root, name, problems)
                entries[name] = _make_entry(name, path, triple, document, events, config, has_events)
    for name in _list_event_folders(root, problems):
        if name not in entries and not (root / TRIPLES / f"{name}.yaml").exists():  # else it is invalid, as reported
            entries |= _read_tombstone(root, name, problems)
    _refuse_twins(entries, problems)
    grants = read_grants(root, problems)
    day = today or find_today()
    permitted = {name: _apply_grants(entry, grants, day) for name, entry in sorted(entries.items())}
    return GoldSet(root, config, permitted, has_events, problems, grants)


def read_entry(root: Path, name: str, today: date | None = None) -> TripleEntry:
    """Return one triple of a set without reading the others. `today`: as in read_set.

    Raises:
        InvalidInput: There is none of this id, or its files are invalid.
    """
    path = root / TRIPLES / f"{name}.yaml"
    if not path.is_file():
        return read_set(root, today).find(name)
    problems: list[Problem] = []
    found = {one: (triple, document) for one, triple, document in _read_triples(path, problems)}
    events = _read_events(root, name, problems)
    if problems:
        raise InvalidInput(problems)
    if name not in found:
        return read_set(root, today).find(name)  # the file has others only, as after a revocation or by hand
    entry = _make_entry(name, path, *found[name], events, read_config(root), _has_events(root))
    grants = read_grants(root, problems) if entry.customers else {}
    if problems:
        raise InvalidInput(problems)
    return _apply_grants(entry, grants, today or find_today())


def hash_content(triple: GoldTriple) -> str:
    """Return the hash of everything that reviewers vouch for: question, blocks, answer, claims, origin."""
    content = to_plain(triple) | {"metadata": triple.metadata.model_dump(mode="json", include=set(_REVIEWED))}
    return compute_hash({key: value for key, value in content.items() if key != "id"})


def _require(name: str, entries: Mapping[str, TripleEntry], problems: Sequence[Problem], root: Path) -> TripleEntry:
    if name in entries:
        return entries[name]
    own = [problem for problem in problems if Path(problem.file).stem == name or name in Path(problem.file).parts]
    if own:
        raise InvalidInput(own)
    fix = near_miss(name, entries) if entries else ""
    raise InvalidInput(Problem(f"there is no triple '{name}'", fix, show(root)))


def _read_triples(path: Path, problems: list[Problem]) -> Iterator[tuple[str, GoldTriple, YamlFile]]:
    """Yield the triples of a file with their ids. Mostly there is one, whose id is the name of the file."""
    shown_as = show(path)
    documents = read_documents(path, shown_as, problems)
    several = len(documents) > 1
    for document in documents:
        values = document.data if isinstance(document.data, list) else [document.data]
        for index, value in enumerate(values):
            place = (index,) if isinstance(document.data, list) else ()
            triple = parse_record(GoldTriple, value, document, place, problems)
            if triple is None:
                continue
            alone = not several and len(values) == 1
            if triple.id is None and not alone:
                problems.append(problem_at(document, place, "a triple beside others needs an id", "add `id`"))
            elif alone and not place and triple.id not in (None, path.stem):
                message = f"the id is '{triple.id}', but the file is {path.name}"
                problems.append(problem_at(document, (*place, "id"), message, "rename one of them"))
            else:
                yield triple.id or path.stem, triple, document


def _has_events(root: Path) -> bool:
    return (root / EVENTS).is_dir()


def _list_event_folders(root: Path, problems: list[Problem]) -> list[str]:
    folder = root / EVENTS
    try:
        found = sorted(os.scandir(folder), key=lambda entry: entry.name) if folder.is_dir() else []
    except OSError as error:
        problems.append(Problem(f"cannot be read: {error.strerror}", file=show(folder)))
        return []
    for entry in found:
        if entry.is_symlink():
            problems.append(explain_link(show(folder / entry.name)))
    return [entry.name for entry in found if not entry.is_symlink() and entry.is_dir()]


def _read_events(root: Path, name: str, problems: list[Problem]) -> list[EventFile]:
    folder = root / EVENTS / name
    if folder.is_symlink():
        return []
    found = (EventFile(event, path) for path, event in read_records(Event, folder, problems))
    return sorted(found, key=_rank)


def _rank(one: EventFile) -> tuple[int, bool, str, int, str]:
    """Return the place of an event in a history. Nothing is computed from the order within a revision."""
    event = one.event
    return event.revision, event.kind not in AUTHORING, event.at, _KINDS[event.kind], one.path.name


def _make_entry(
    name: str,
    path: Path,
    triple: GoldTriple,
    document: YamlFile,
    events: Sequence[EventFile],
    config: SetFile,
    has_events: bool,
) -> TripleEntry:
    content_hash = hash_content(triple)
    if has_events:
        review_status = compute_review_status([one.event for one in events], content_hash, config.people)
    else:
        review_status = _read_review_status(triple)
    return TripleEntry(name, path, triple, document, events, review_status, content_hash)


def _read_review_status(triple: GoldTriple) -> ReviewStatus:
    """Return the status of a triple without events: accepted if its metadata names two reviewers besides the author.

    The metadata has to have a resolution that accepts the triple.
    """
    metadata = triple.metadata
    others = set(metadata.reviewed_by or ()) - {metadata.added_by}
    accepted = metadata.resolution in ACCEPTING and len(others) > 1
    state = State.ACCEPTED if accepted else State.PENDING
    return ReviewStatus(state, 1, metadata.added_by, metadata.resolution if accepted else None)


def _read_tombstone(root: Path, name: str, problems: list[Problem]) -> dict[str, TripleEntry]:
    """Return the entry of a revoked triple, whose content is deleted. Other events without a triple are a problem."""
    events = _read_events(root, name, problems)
    revoked = [one for one in events if one.event.kind is Kind.REVOKE]
    if not revoked:
        message = "there are events, but no triple"
        fix = f"restore triples/{name}.yaml from git; `evalspec gold retire` takes a triple out of the set"
        problems.append(Problem(message, fix, show(root / EVENTS / name)))
        return {}
    review_status = ReviewStatus(State.REVOKED, revoked[0].event.revision, resolution="revoked")
    return {name: TripleEntry(name, root / TRIPLES / f"{name}.yaml", None, None, events, review_status)}


def _apply_grants(entry: TripleEntry, grants: Mapping[str, Grant], today: date) -> TripleEntry:
    """Return an entry whose state is revoked, with the cause, if its customer does not permit its use."""
    if entry.triple is None or entry.state is State.REVOKED:
        return entry
    customers: Sequence[str | None] = sorted(entry.customers) or [None]
    for customer in customers:
        metadata = entry.triple.metadata.model_copy(update={"customer": customer})
        cause = explain_no_permission(metadata, grants, today)
        if cause is not None:
            entry.review_status = replace(entry.review_status, state=State.REVOKED, resolution=cause)
    return entry


def _refuse_twins(entries: Mapping[str, TripleEntry], problems: list[Problem]) -> None:
    """Report ids that some file systems treat as one."""
    seen: dict[str, str] = {}
    for name, entry in entries.items():
        first = seen.setdefault(name.casefold(), name)
        if first != name:
            message = f"the id '{name}' differs from '{first}' only in case"
            problems.append(Problem(message, "rename one of them", show(entry.path)))
