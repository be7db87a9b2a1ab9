"""Export labels as JSON Lines or CSV, and import them: all labels of a file or none."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from msgspec import Struct, field
from msgspec.structs import replace

from evalspec.base.errors import EvalspecError, InvalidInput, Problem
from evalspec.base.json_text import render_line
from evalspec.base.jsonl import read_json_lines
from evalspec.base.output_files import Input, refuse_inputs, refuse_others, write_file
from evalspec.curation.labels.cases import LabelledRun
from evalspec.curation.labels.current import group_by_target, is_informed, list_current
from evalspec.curation.labels.files import find_time, hash_label, read_labels, without_erased, write_labels
from evalspec.curation.labels.judged_run import JudgedRun
from evalspec.curation.labels.labelling import explain_value
from evalspec.curation.labels.listing import find_labelled, list_labels
from evalspec.curation.labels.records import KEYS, Fault, find_fix, parse_given, render_time, to_utc
from evalspec.curation.labels.tables import read_label_table, render_label_table
from evalspec.model.corrections import LABEL_SUFFIXES
from evalspec.model.labels import Label, LabelVerdict, Target
from evalspec.runs.store.run_store import STORE, RunStore

JSONL, CSV = LABEL_SUFFIXES
_LABELS = rb'"labeller": ?"|\A[a-zA-Z,]*\blabeller\b'
_READERS: Mapping[str, Callable[[Path, str, list[Problem]], Iterator[tuple[int, Any]]]] = {
    JSONL: read_json_lines,
    CSV: read_label_table,
}
_JUDGED = ("sample_digest", "reply_digest", "shown_value", "metric_key", "metric_identity")
"""Fields that say what a person judged. A file may leave them out if the run is in the store."""


class ImportedLabels(Struct, frozen=True):
    """The outcome of an import. `added`: number of new labels by run. `known`: number of labels that were there."""

    added: Mapping[str, int] = field(default_factory=dict)
    known: int = 0


class GivenLabel(Struct, frozen=True):
    """A label of a file. `given`: its keys. `place`: makes a problem of a message, a fix and a key."""

    label: Label
    given: frozenset[str]
    file: str
    number: int

    def fault(self, message: str, fix: str, key: str) -> Problem:
        """Return a problem of this line."""
        return Problem(message, fix, self.file, self.number, key)


def render_labels(labels: Iterable[Label], suffix: str) -> bytes:
    """Return labels as a file of this suffix, `.jsonl` or `.csv`."""
    if suffix == CSV:
        return render_label_table(labels)
    return "".join(f"{render_line(label)}\n" for label in labels).encode()


def export_labels(
    path: Path | str,
    runs: Sequence[str] = ("latest",),
    *,
    history: bool = False,
    store: Path | str = STORE,
    force: bool = False,
) -> int:
    """Write the labels of runs to a file, and return their number. An earlier export is replaced.

    The file shows everybody's labels, so who reads it does not label blindly afterwards.

    Args:
        path: File to write, `.jsonl` or `.csv`.
        runs: Ids, their beginnings, names of runs, or `latest`.
        history: Include labels that were replaced or withdrawn.
        store: Folder of the runs.
        force: Replace any file.

    Raises:
        InvalidInput: There is no such run, or labels cannot be written to such a file.
        OSError: The file cannot be written.
    """
    place, opened = Path(path), RunStore(Path(store))
    check_suffix(place)
    refuse_inputs([place], [Input(opened.root, "evalspec's own store")])
    refuse_others([place], force=force, own=_LABELS)
    names = dict.fromkeys(find_labelled(opened, run) for run in runs)
    labels = [one for name in names for one in list_labels(name, history=history, store=store)]
    write_file(place, [render_labels(labels, place.suffix)])
    return len(labels)


def import_labels(path: Path | str, *, store: Path | str = STORE) -> ImportedLabels:
    """Add the labels of a file, all or none. Labels that are there already are left out.

    Of a line, `run`, `dataset`, `sample`, `verdict` and `labeller` are required, and for a score `metric`. If it does
    not say what was judged, the reply and the score of the stored run are meant.

    Args:
        path: File to read, `.jsonl` or `.csv`, as `export_labels` writes it.
        store: Folder of the runs.

    Raises:
        InvalidInput: A line is invalid. Every such line is reported, and nothing is imported.
        StoreError: The labels cannot be written.
    """
    place, opened = Path(path), RunStore(Path(store))
    return add_labels(opened, place, str(place), lambda run: LabelledRun(opened, run), lambda _: None)


def add_labels(
    opened: RunStore,
    place: Path,
    shown_as: str,
    open_judged: Callable[[str], JudgedRun],
    explain: Callable[[Label], Fault | None],
) -> ImportedLabels:
    """Add the labels of a file to a store, all or none. See `import_labels`.

    `shown_as`: the file in messages. `open_judged`: opens a run of the store. `explain`: says why a label is refused.

    Raises:
        InvalidInput: A line is invalid or refused.
        StoreError: The labels cannot be written.
    """
    check_suffix(place)
    problems: list[Problem] = []
    lines = list(read_lines(place, shown_as, problems))
    for line in lines:
        fault = explain(line.label)
        if fault is not None:
            key, message, fix = fault
            problems.append(line.fault(message, fix, key))
    checked = _check_lines(opened, lines, open_judged, problems)
    if problems:
        raise InvalidInput(problems)
    added: dict[str, int] = {}
    for run, own in checked.items():
        new = _list_new(read_labels(opened.root, run), own)
        if new:
            write_labels(opened.root, run, new)
            added[run] = len(new)
    return ImportedLabels(added, len(lines) - sum(added.values()))


def check_suffix(path: Path) -> None:
    """Check that labels can be in such a file.

    Raises:
        InvalidInput: The suffix belongs to another kind of file.
    """
    if path.suffix not in _READERS:
        raise InvalidInput(Problem("labels are in .jsonl or .csv files", "choose such a name", str(path)))


def read_lines(path: Path, shown_as: str, problems: list[Problem]) -> Iterator[GivenLabel]:
    """Yield the valid labels of a file. `shown_as`: the file in messages."""
    now, seen = datetime.now(UTC), dict[tuple[Target, str, str], GivenLabel]()
    for number, data in _READERS[path.suffix](path, shown_as, problems):
        at = render_time(now + timedelta(microseconds=number))  # of two lines about the same, the later one counts
        label = parse_given(data, shown_as, number, problems, at=at)
        if label is None:
            continue
        line = GivenLabel(label, frozenset(data), shown_as, number)
        other = seen.setdefault((label.target, label.labeller, label.at), line)
        if (other.label.verdict, other.label.value) != (label.verdict, label.value):
            message = f"{label.labeller} says something else about it at the same time, on line {other.number}"
            problems.append(line.fault(message, "keep the line that is right", KEYS["at"]))
        yield line
    problems[:] = [one if one.fix else replace(one, fix=find_fix(one.field)) for one in problems]


def _check_lines(
    store: RunStore, lines: Sequence[GivenLabel], open_judged: Callable[[str], JudgedRun], problems: list[Problem]
) -> dict[str, list[GivenLabel]]:
    """Return the labels by run, with what was judged."""
    by_run: dict[str, list[GivenLabel]] = {}
    for line in lines:
        by_run.setdefault(line.label.run, []).append(line)
    for run, own in by_run.items():
        if not store.owns(store.runs / run):
            problems += [fault for line in own for fault in list_unbound(line)]
            continue
        try:
            opened = open_judged(run)
            opened.require_texts()
        except EvalspecError as error:
            problems.append(own[0].fault(str(error), "", KEYS["run"]))
            continue
        by_run[run] = [bound for line in own if (bound := _bind(opened, line, problems)) is not None]
    return by_run


def list_unbound(line: GivenLabel) -> Iterator[Problem]:
    """Yield what is missing in a label of a run that is not in the store."""
    label = line.label
    missing = [name for name in ("reply_digest", "sample_digest") if getattr(label, name) is None]
    if label.metric is not None:
        needed = ("metric_key",) if label.verdict is LabelVerdict.RATED else ("shown_value", "metric_key")
        missing += [name for name in needed if getattr(label, name) is None]
    if missing:
        message = "the line does not say what was judged"
        yield line.fault(message, f"import it where run {label.run} is, and export it there", KEYS[missing[0]])


def _bind(run: JudgedRun, line: GivenLabel, problems: list[Problem]) -> GivenLabel | None:
    """Return a label with what it is about, or None and a problem."""
    label = line.label
    try:
        run.find_dataset(label.dataset, label.sample)
        metric = None if label.metric is None else run.find_metric(label.dataset, label.metric)
    except InvalidInput as error:
        key = error.problems[0].field.removeprefix("--")
        problems += [line.fault(one.message, one.fix, key) for one in error.problems]
        return None
    outside = None if label.value is None else explain_value(metric, label.value)
    if outside is not None:
        problems.append(line.fault(*outside, KEYS["value"]))
        return None
    started = run.stored.fingerprint.started_at
    if KEYS["at"] in line.given and started and label.at < to_utc(started):
        message = f"{label.at} is before run {run.id} was started, at {started}"
        problems.append(line.fault(message, "write when the person gave it", KEYS["at"]))
        return None
    if run.is_erased(label.dataset, label.sample):
        return replace(line, label=without_erased(label))
    if label.reply_digest is not None:
        return line
    try:
        is_rated = label.verdict is LabelVerdict.RATED
        case = run.find_case(label.dataset, label.sample, label.attempt, label.metric, is_rated=is_rated)
    except InvalidInput as error:
        problems += [line.fault(one.message, one.fix, one.field.removeprefix("--")) for one in error.problems]
        return None
    unseen = ("shown_value",) if label.is_blind else ()
    judged = {name: value for name, value in case.describe().items() if name in _JUDGED and name not in unseen}
    return replace(line, label=replace(label, **judged))


def _list_new(known: Sequence[Label], lines: Sequence[GivenLabel]) -> list[Label]:
    """Return the labels that are not there yet, with what their lines left out."""
    hashes = {hash_label(one) for label in known for one in (label, replace(label, used_for=None))}
    by_target = group_by_target(known)
    new: list[Label] = []
    for line in lines:
        others = by_target.setdefault(line.label.target, [])
        label = _complete(line, others)
        if label is not None and hash_label(label) not in hashes:
            hashes.add(hash_label(label))
            others.append(label)
            new.append(label)
    return new


def _complete(line: GivenLabel, others: Sequence[Label]) -> Label | None:
    """Return a label with its time, and whether it was informed. None if the person says just that already.

    `others`: the labels on the same target.
    """
    label = line.label
    if KEYS["at"] not in line.given:
        if _is_current(others, label):
            return None
        label = replace(label, at=max(label.at, find_time(others, label.labeller)))
    if KEYS["is_informed"] not in line.given:
        label = replace(label, is_informed=is_informed(others, label.labeller))
    return label


def _is_current(others: Iterable[Label], label: Label) -> bool:
    own = [one for one in list_current(others) if one.labeller == label.labeller]
    if not own:
        return label.verdict is LabelVerdict.WITHDRAWN
    return (own[0].verdict, own[0].value, own[0].note) == (label.verdict, label.value, label.note)
