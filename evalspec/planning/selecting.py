"""Select the datasets and samples of a run, and the parts of gold sets: slices and held-out shares."""

from collections.abc import Callable, Iterator, Sequence
from itertools import chain
from pathlib import Path
from typing import Any

from msgspec import Struct, field
from msgspec.structs import replace

from evalspec.agents.request_template import drops_messages
from evalspec.datasets.filters import list_values
from evalspec.datasets.selection import Selection, select
from evalspec.datasets.spooling import spool
from evalspec.errors import InvalidInput, Problem
from evalspec.gold.layout import SET_FILE
from evalspec.model import Sample
from evalspec.planning.draft import Draft, PlannedDataset
from evalspec.planning.options import RunOptions
from evalspec.planning.survey import Lacking, describe_others, find_conversations
from evalspec.plural import counted


class Part(Struct, frozen=True):
    """A part of a gold set. `holds`: whether it contains a triple, by id. `details`: for the fingerprint.

    `left_out`: the triples of the slice that are no longer in the set, as a phrase.
    """

    holds: Callable[[str], bool]
    details: dict[str, Any] = field(default_factory=dict)
    left_out: str | None = None
    note: str | None = None


def check_parts(options: RunOptions, datasets: Sequence[PlannedDataset]) -> list[Part | None]:
    """Return the part of each dataset that the options choose. None is the whole dataset.

    Raises:
        InvalidInput: A dataset is no gold set, there is no such slice, or the options exclude each other.
    """
    if options.slice is None and not options.held_out:
        return [None] * len(datasets)
    named = "--held-out" if options.held_out else "--slice"
    if options.slice is not None and options.held_out:
        message = "no slice contains a triple of the held-out share"
        raise InvalidInput(Problem(message, "choose one of --slice and --held-out", field=named))
    sets = [one.name for one in datasets if is_gold_set(one)]
    others = [one.name for one in datasets if one.name not in sets]
    if others:
        message = f"dataset '{others[0]}' is no gold set, so it has no slices and no held-out share"
        fix = f"choose gold sets: --dataset {' --dataset '.join(sets)}" if sets else f"remove {named}"
        raise InvalidInput(Problem(message, fix, field=named))
    return [_open_part(options, Path(one.file)) for one in datasets]


def is_gold_set(dataset: PlannedDataset) -> bool:
    """Return whether a dataset is the folder of a gold set."""
    return (Path(dataset.file) / SET_FILE).is_file()


def _open_part(options: RunOptions, root: Path) -> Part:
    from evalspec.gold.gold_set import read_config
    from evalspec.gold.held_out import describe_uses, read_uses
    from evalspec.gold.slices import is_held_out, open_slice_alone

    if options.slice is None:
        share, uses = read_config(root).rules.held_out, read_uses(root)
        note = f"the held-out share {describe_uses(uses)}; each use makes it less independent"
        return Part(lambda name: is_held_out(name, share), {"heldOut": True, "usesBefore": len(uses)}, note=note)
    found = open_slice_alone(root, options.slice)
    members = {entry.id for entry in found.entries}
    missing = {cause: len(ids) for cause, ids in sorted(found.missing.items())}
    details = {"slice": found.name, "drawn": len(found.file.triples), "missing": missing}
    return Part(members.__contains__, details, found.describe_missing())


def _stored_ones(draft: Draft, dataset: PlannedDataset) -> Sequence[Sample]:
    """Return the samples chosen by id, or those with stored replies, if the run is limited to them."""
    chosen = (draft.options.only or {}).get(dataset.name)
    if chosen is not None:
        return spool(sample for sample in dataset.samples if sample.id in chosen)
    if draft.options.stored is None:
        return dataset.samples
    wanted = draft.options.stored[dataset.name]
    known = {sample.id for sample in dataset.samples}
    gone = wanted - known
    if gone:
        message = f"{len(gone)} of the stored run's samples are no longer in dataset '{dataset.name}': skipped"
        draft.warnings.append(Problem(message, file=dataset.file))
    return dataset.samples if wanted == known else spool(one for one in dataset.samples if one.id in wanted)


def select_datasets(draft: Draft, chosen: Sequence[PlannedDataset]) -> tuple[PlannedDataset, ...]:
    """Return the selected datasets with their selected samples. Empty ones are skipped with a warning.

    Raises:
        InvalidInput: No sample is selected, or an option selects something that does not exist.
    """
    options, selection = draft.options, draft.options.parse_selection()
    parts = check_parts(options, chosen)
    selection.check_keys(lambda: chain.from_iterable(dataset.samples for dataset in chosen))
    selected, emptied = [], []
    for dataset, part in zip(chosen, parts, strict=True):
        if options.stored is not None and dataset.name not in options.stored:
            draft.warnings.append(Problem(f"dataset '{dataset.name}' is not part of the stored run: skipped"))
            continue
        samples = select(take_part(part, _stored_ones(draft, dataset)), selection)
        draft.warnings.extend(_warn(dataset, part, selection))
        if options.is_selective and draft.needs_url and dataset.retriever is None:
            refuse_dropped(draft, find_conversations(samples), len(samples), dataset.file)
        if not samples:
            emptied.append(Problem(f"dataset '{dataset.name}' has no sample that is selected: skipped"))
            continue
        if options.sample_size is not None and options.sample_size > len(samples):
            message = f"dataset '{dataset.name}' has only {counted(len(samples), 'sample')}: all are used"
            draft.warnings.append(Problem(message, field="--sample-size"))
        selected.append(replace(dataset, samples=samples, part=None if part is None else part.details))
    if not selected:
        tags = sorted({tag for dataset in chosen for sample in dataset.samples for tag in sample.tags})
        hint = f"tags of the datasets: {', '.join(tags) or 'none'}" if tags or not draft.warnings else ""
        raise InvalidInput([Problem("no sample is selected", hint), *draft.warnings])
    draft.warnings.extend(emptied)
    draft.raise_problems()
    return tuple(selected)


def refuse_dropped(draft: Draft, conversations: Lacking, total: int, file: str) -> None:
    """Add a problem if the request has only the last message of samples that have more."""
    endpoint = draft.loaded.manifest.spec.api.chat_endpoint
    if conversations.count and drops_messages(endpoint):
        message = f"spec.api.chatEndpoint.request sends only the last message{describe_others(conversations, total)}"
        fix = "put {{messages}} into the request; if the agent knows the earlier ones, write sessionMode: stateful"
        draft.problems.append(Problem(message, fix, file, conversations.first[0].line, "input"))


def take_part(part: Part | None, samples: Sequence[Sample]) -> Sequence[Sample]:
    """Return the samples of a part; all without one."""
    return samples if part is None else spool(sample for sample in samples if part.holds(sample.id))


def _warn(dataset: PlannedDataset, part: Part | None, selection: Selection) -> Iterator[Problem]:
    if part is not None and part.left_out is not None:
        yield Problem(f"slice '{part.details['slice']}': {part.left_out}", file=dataset.file)
    if part is not None and part.note is not None:
        yield Problem(part.note, file=dataset.file)
    absent = [key for key in selection.stratify if not any(list_values(one, key) for one in dataset.samples)]
    if absent:
        message = f"dataset '{dataset.name}' has no `{'`, `'.join(absent)}`, so its draw ignores that key"
        yield Problem(message, field="--stratify")


def log_held_out(datasets: Sequence[PlannedDataset], run: str) -> None:
    """Log the use of the held-out share of each gold set in it. `run`: the id of the run.

    Raises:
        InvalidInput: The log cannot be written.
    """
    for dataset in datasets:
        if dataset.part is not None and dataset.part.get("heldOut"):
            from evalspec.gold.held_out import log_use

            log_use(Path(dataset.file), run)
