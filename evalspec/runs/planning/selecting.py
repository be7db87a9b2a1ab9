"""Select the datasets and samples of a run, and the parts of gold sets: slices and held-out shares."""

from collections.abc import Iterator, Sequence
from itertools import chain
from pathlib import Path

from msgspec.structs import replace

from evalspec.base.errors import InvalidInput, Problem
from evalspec.base.plural import counted
from evalspec.inputs.datasets.base import DATASETS, DatasetParts, Part
from evalspec.inputs.datasets.filters import list_values
from evalspec.inputs.datasets.selection import Selection, select
from evalspec.inputs.datasets.spooling import spool
from evalspec.model import Sample
from evalspec.runs.planning.draft import Draft, PlannedDataset
from evalspec.runs.planning.options import RunOptions
from evalspec.runs.planning.sharding import check_shard, take_shard
from evalspec.runs.planning.survey import Conversations, describe_others, find_conversations
from evalspec.targets.agents.request_template import drops_messages


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
    found = [_find_parts(one) for one in datasets]
    sets = [one.name for one, parts in zip(datasets, found, strict=True) if parts is not None]
    others = [one.name for one in datasets if one.name not in sets]
    if others:
        message = f"dataset '{others[0]}' is no gold set, so it has no slices and no held-out share"
        fix = f"choose gold sets: --dataset {' --dataset '.join(sets)}" if sets else f"remove {named}"
        raise InvalidInput(Problem(message, fix, field=named))
    return [parts.open(Path(one.file), options.slice) for one, parts in zip(datasets, found, strict=True) if parts]


def _find_parts(dataset: PlannedDataset) -> DatasetParts | None:
    """Return how to open a part of a dataset. None: it has no parts."""
    known = (form.parts for form in DATASETS if form.parts is not None)
    return next((parts for parts in known if parts.recognises(Path(dataset.file))), None)


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
        details = None if part is None else part.details
        selected.append(replace(dataset, data=dataset.data.keep(samples), part=details))
    if not selected:
        tags = sorted({tag for dataset in chosen for sample in dataset.samples for tag in sample.tags})
        hint = f"tags of the datasets: {', '.join(tags) or 'none'}" if tags or not draft.warnings else ""
        raise InvalidInput([Problem("no sample is selected", hint), *draft.warnings])
    draft.warnings.extend(emptied)
    check_shard(draft, selected)
    draft.raise_problems()
    return take_shard(selected, options.shard)


def refuse_dropped(draft: Draft, conversations: Conversations, total: int, file: str) -> None:
    """Add a problem if the request has only the last message of samples that have more, and nobody knows the others."""
    endpoint = draft.loaded.manifest.spec.api.chat_endpoint
    dropped = conversations.begun if endpoint.is_stateful else conversations.every
    if dropped.count and drops_messages(endpoint):
        message = f"spec.api.chatEndpoint.request sends only the last message{describe_others(dropped, total)}"
        fix = (
            "put {{messages}} into the request; if the agent has kept this session, write sessionMode: stateful and "
            "send its id as {{id}} or {{metadata.KEY}}"
        )
        draft.problems.append(Problem(message, fix, file, dropped.first[0].line, "input"))


def take_part(part: Part | None, samples: Sequence[Sample]) -> Sequence[Sample]:
    """Return the samples of a part; all without one."""
    return samples if part is None else spool(sample for sample in samples if part.holds(sample.id))


def _warn(dataset: PlannedDataset, part: Part | None, selection: Selection) -> Iterator[Problem]:
    if part is not None and part.left_out is not None:
        yield Problem(f"slice '{part.details.slice}': {part.left_out}", file=dataset.file)
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
        is_held_out = dataset.part is not None and dataset.part.held_out
        if is_held_out and (parts := _find_parts(dataset)):
            parts.log_use(Path(dataset.file), run)
