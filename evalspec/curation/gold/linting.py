"""Check that a gold set is what its events say: every rule that a hand or a merge can break."""

from collections.abc import Iterator, Sequence
from pathlib import Path

from msgspec import Struct

from evalspec.base.errors import Problem
from evalspec.curation.gold.blocks import PIN, find_texts, key_of, list_damaged, parse_pin
from evalspec.curation.gold.calibration import read_calibrations
from evalspec.curation.gold.disputes import check_numbers, is_numeric
from evalspec.curation.gold.event_files import event_name
from evalspec.curation.gold.files import YamlFile, list_unread, show
from evalspec.curation.gold.gold_set import EventFile, GoldSet, TripleEntry, read_set
from evalspec.curation.gold.layout import BLOCKS, DISPUTE_KEY, EVENTS, OF_RECORDS
from evalspec.curation.gold.leaks import list_broken_records, list_ended_grants, list_leaks, list_missing_grants
from evalspec.curation.gold.reviewers import describe_missing, is_dead_end
from evalspec.curation.gold.schema import Category, DisputeOutcome, Kind, TripleMetadata, TripleSource
from evalspec.curation.gold.slices import check_slices
from evalspec.curation.gold.states import AUTHORING, REVIEWING, State

_WRITTEN_BY_EXPORTS = ("reviewed_by", "resolution", DISPUTE_KEY)
_ENDED = frozenset({State.DROPPED, State.RETIRED, State.REVOKED})


class Lint(Struct, frozen=True):
    """What `evalspec gold lint` finds. `problems` make the set invalid; `warnings` do not."""

    found: GoldSet
    problems: Sequence[Problem]
    warnings: Sequence[Problem]


def lint(root: Path | str) -> Lint:
    """Check all files of a set.

    Raises:
        InvalidInput: set.yaml is missing or invalid.
    """
    found = read_set(Path(root))
    problems, warnings = [*found.problems, *list_damaged(found.root)], list[Problem]()
    read_calibrations(found.root, found.config, problems)
    for entry in found.entries.values():
        if found.has_events:
            problems += _check_events(entry)
        problems += _check_content(entry, found)
        warnings += _list_doubts(entry, found)
    problems += check_slices(found)
    problems += [*list_missing_grants(found), *list_leaks(found), *list_broken_records(found)]
    problems += _list_copies(found)
    warnings += [*list_ended_grants(found), *_list_equal(found), *_list_unread(found.root)]
    return Lint(found, problems, warnings)


def _list_unread(root: Path) -> Iterator[Problem]:
    for name in OF_RECORDS:
        yield from list_unread(root / name, show(root / name))
    for path in sorted((root / EVENTS).iterdir()) if (root / EVENTS).is_dir() else ():
        if path.is_dir():
            yield from list_unread(path, show(path))
        elif not path.name.startswith("."):
            yield Problem("this is not read: each triple has a folder for its events", "move it there", show(path))


def _list_equal(found: GoldSet) -> Iterator[Problem]:
    """Yield a warning for each triple with the content of an earlier one."""
    first: dict[str, str] = {}
    for entry in _list_living(found):
        other = first.setdefault(entry.content_hash, entry.id)
        if other != entry.id:
            message = f"question, blocks and answer are those of '{other}', so they count twice"
            yield Problem(message, f"keep one: evalspec gold retire {entry.id}", show(entry.path))


def _list_copies(found: GoldSet) -> Iterator[Problem]:
    """Yield a problem for each triple with the reviews of another one. Names of events have a hash of all they say."""
    first: dict[str, str] = {}
    for entry in _list_living(found):
        reviews = [one.path.name for one in entry.events if one.event.kind in REVIEWING]
        others = {first.setdefault(one, entry.id) for one in reviews} - {entry.id}
        if others:
            message = f"its reviews are also those of {', '.join(sorted(others))}, so one of the triples is a copy"
            fix = f"remove the copy and its folder in {EVENTS}/, and add it as a new triple: evalspec gold add"
            yield Problem(message, fix, show(entry.path))


def _list_living(found: GoldSet) -> Iterator[TripleEntry]:
    return (one for one in found.entries.values() if one.triple is not None and one.state not in _ENDED)


def _check_events(entry: TripleEntry) -> Iterator[Problem]:
    for one in entry.events:
        if one.path.name != event_name(one.event):
            message = "the event was edited after it was written"
            yield Problem(message, "restore it from git", show(one.path))
    for fault in entry.review_status.faults:
        path = next(one.path for one in entry.events if one.event is fault.event)
        yield Problem(f"the event does not count: {fault.reason}", "remove it in a commit of its own", show(path))
    is_revoked = any(one.event.kind is Kind.REVOKE for one in entry.events)
    if entry.triple is not None and not entry.review_status.revision and not is_revoked:
        yield _explain_foreign_content(entry)
    if entry.triple is None or entry.document is None:
        return
    for key in _WRITTEN_BY_EXPORTS:
        if getattr(entry.triple.metadata, key, None) is not None:
            message = f"`{key}` is computed from events, and only exports write it"
            line = entry.document.line(("metadata", key))
            yield Problem(message, "remove it", show(entry.path), line, f"metadata.{key}")


def _explain_foreign_content(entry: TripleEntry) -> Problem:
    """Return the problem of a content that is of no revision: never recorded, edited by hand, or merged."""
    fix = f"record it: evalspec gold revise {entry.id}"
    claims = _list_latest_authoring(entry)
    if not claims:
        return Problem("the triple has no event that adds it", fix, show(entry.path))
    if len(claims) > 1:
        message = f"{_name_rivals(claims)} wrote revision {claims[0].event.revision}, and the content is neither's"
        return Problem(message, fix, show(entry.path))
    message = f"the content was edited after revision {claims[0].event.revision}, so nobody has reviewed it"
    return Problem(message, f"{fix}, or restore it from git", show(entry.path))


def _name_rivals(claims: Sequence[EventFile]) -> str:
    names = sorted({one.event.by for one in claims})
    return f"{', '.join(names[:-1])} and {names[-1]} both" if len(names) > 1 else f"{names[0]} twice"


def _list_rivals(entry: TripleEntry) -> Iterator[Problem]:
    """Yield a warning if two edits were merged by keeping one of them."""
    claims = _list_latest_authoring(entry)
    kept = {one.event.by for one in claims if one.event.content_hash == entry.content_hash}
    if kept and len({one.event.content_hash for one in claims}) > 1:
        wrote = f"{_name_rivals(claims)} wrote revision {entry.review_status.revision}"
        message = f"{wrote}; the file has what {kept.pop()} wrote"
        fix = f"if something is missing, add it and run: evalspec gold revise {entry.id}"
        yield Problem(message, fix, show(entry.path))


def _list_latest_authoring(entry: TripleEntry) -> list[EventFile]:
    written = [one for one in entry.events if one.event.kind in AUTHORING]
    latest = max((one.event.revision for one in written), default=0)
    return [one for one in written if one.event.revision == latest]


def _check_content(entry: TripleEntry, found: GoldSet) -> Iterator[Problem]:
    if entry.triple is None or entry.document is None:
        return
    metadata, document = entry.triple.metadata, entry.document
    yield from _check_customer(entry, metadata, document)
    if metadata.added_by is not None and metadata.added_by not in found.config.people:
        message = f"'{metadata.added_by}' is not one of the people in set.yaml"
        line = document.line(("metadata", "added_by"))
        yield Problem(message, "a person answers for every triple", show(entry.path), line, "metadata.added_by")
    if metadata.source is TripleSource.SYNTHETIC and metadata.added_by is None:
        line = document.line(("metadata",))
        message = "a synthetic triple needs a human author"
        yield Problem(message, "name one of the people in set.yaml", show(entry.path), line, "metadata.added_by")
    for block in entry.triple.blocks:
        if (block.version or "").startswith(PIN) and parse_pin(block.version) is None:
            line = document.line(("expected_block",))
            message = f"'{block.version}' is not {PIN} and 16 to 64 hex digits in lower case"
            yield Problem(message, "restore it from git", show(entry.path), line, "expected_block")
    yield from _check_numbers(entry, found)
    for one in entry.events:
        for child in one.event.children or ():
            if child not in found.entries:
                yield Problem(f"'{child}', which replaces {entry.id}, is missing", "restore it", show(one.path))


def _check_customer(entry: TripleEntry, metadata: TripleMetadata, document: YamlFile) -> Iterator[Problem]:
    others = " and ".join(sorted(entry.customers - {metadata.customer}))
    if others:
        message, fix = f"the triple was a question of {others}, and stays so", "restore `customer`"
    elif metadata.source is TripleSource.CUSTOMER and metadata.customer is None:
        message, fix = "a customer's question names its customer", "add it"
    else:
        return
    yield Problem(message, fix, show(entry.path), document.line(("metadata",)), "metadata.customer")


def _check_numbers(entry: TripleEntry, found: GoldSet) -> Iterator[Problem]:
    """Yield the differences of an answer that was upheld in a numeric dispute although the block says otherwise."""
    if not entry.is_accepted or entry.review_status.resolution != "upheld" or entry.document is None:
        return
    settled = [event.category for event in entry.review_status.current.events if event.verdict == DisputeOutcome.UPHELD]
    if not is_numeric(entry, Category.NUMERIC if Category.NUMERIC in settled else None):
        return
    for difference in check_numbers(found.root, entry).differences:
        line = entry.document.line(("expected_answer",))
        message = f"upheld in a numeric dispute, but {difference.render()}"
        fix = f"revise the answer: evalspec gold revise {entry.id}"
        yield Problem(message, fix, show(entry.path), line, "expected_answer")


def _list_doubts(entry: TripleEntry, found: GoldSet) -> Iterator[Problem]:
    if entry.triple is None or entry.document is None:
        return
    yield from _list_rivals(entry)
    if is_dead_end(entry):
        yield Problem(f"the triple needs {describe_missing(entry)}", file=show(entry.path))
    pinned = [block for block in entry.triple.blocks if parse_pin(block.version)]
    texts = find_texts(found.root, entry.triple) if pinned else {}
    lost = [block.block_id for block in pinned if key_of(block) not in texts]
    if lost:
        message = f"the pinned text of {', '.join(lost)} is not in {BLOCKS}/, so reviewers cannot see it"
        line = entry.document.line(("expected_block",))
        yield Problem(message, "restore it from git", show(entry.path), line, "expected_block")
    unpinned = [block.block_id for block in entry.triple.blocks if block.version is None]
    if unpinned:
        message = f"unpinned: {', '.join(unpinned)} may change without anybody noticing"
        fix = "pin the version: evalspec gold pin --corpus FILE"
        yield Problem(message, fix, show(entry.path), entry.document.line(("expected_block",)), "expected_block")
