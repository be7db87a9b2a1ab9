"""Shards of a run: which one is evaluated, and which samples it has. And the machines that a run is worked on."""

import re
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from heapq import heapreplace
from importlib.util import find_spec
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from evalspec.base.errors import InvalidInput, Problem, install_fix
from evalspec.base.json_text import compute_digest
from evalspec.base.trust import current_trust
from evalspec.inputs.datasets.spooling import spool
from evalspec.inputs.manifest.credentials import find_literals
from evalspec.inputs.manifest.loader import LoadedManifest
from evalspec.model.shards import Shard
from evalspec.runs.planning.draft import Draft, PlannedDataset, WholeSelection
from evalspec.runs.planning.inputs import list_shared_files
from evalspec.runs.planning.options import RunOptions
from evalspec.runs.planning.services import API_PLACE, PORT, choose_traces
from evalspec.verdict.stats.clusters import find_cluster

AUTO, HERE = "auto", "here"
_FIELD = "--shard"
_FORM = "write NUMBER/SHARDS, from 1, such as 3/8; or `auto` on GitLab and SLURM"
_MATRIX = "on GitHub, write --shard ${{ matrix.shard }}/${{ strategy.job-total }}"
_MOST_SHARDS = 10_000
_MOST_BYTES = 50 << 20
"""What nodes get of the project."""
_PLACE = re.compile(r"ray(:(\[[\da-fA-F:]+\]|[^\s:]+):\d{1,5})?")


class _Scheduler(Struct, frozen=True):
    """The variables in which a scheduler numbers the jobs of one run. `first`, `step`: of its numbers."""

    name: str
    number: str
    of: str
    first: str = ""
    step: str = ""


_SCHEDULERS = (
    _Scheduler("GitLab CI", "CI_NODE_INDEX", "CI_NODE_TOTAL"),
    _Scheduler(
        "SLURM", "SLURM_ARRAY_TASK_ID", "SLURM_ARRAY_TASK_COUNT", "SLURM_ARRAY_TASK_MIN", "SLURM_ARRAY_TASK_STEP"
    ),
)


def read_shard(text: str, environment: Mapping[str, str]) -> tuple[Shard, str | None]:
    """Return the shard that an option states, and what was read from the environment for `auto`.

    Raises:
        InvalidInput: The text is no shard, or the environment does not say which one this is.
    """
    if text == AUTO:
        return _detect_shard(environment)
    number, slash, of = text.partition("/")
    if not (slash and number.isdecimal() and of.isdecimal() and 1 <= int(number) <= int(of) <= _MOST_SHARDS):
        raise InvalidInput(Problem(f"'{text}' is no shard", _FORM, field=_FIELD))
    return Shard(int(number), int(of)), None


def _detect_shard(environment: Mapping[str, str]) -> tuple[Shard, str]:
    found = [one for one in _SCHEDULERS if environment.get(one.number)]
    if len(found) != 1:
        names = [one.number for one in found or _SCHEDULERS]
        state = f"{' and '.join(names)} are both set" if found else f"neither {' nor '.join(names)} is set"
        raise InvalidInput(Problem(state, f"write NUMBER/SHARDS, such as 3/8; {_MATRIX}", field=_FIELD))
    variables = found[0].number, found[0].of, found[0].first, found[0].step
    values = {name: environment.get(name, "") for name in variables if name}
    said = ", ".join(f"{name} is {value or 'not set'}" for name, value in values.items())
    number, of, first, step = (int(text) if (text := values.get(name, "1")).isdecimal() else 0 for name in variables)
    place, rest = divmod(number - first, step or 1)
    if rest or not (0 <= place < of <= _MOST_SHARDS and step):
        raise InvalidInput(Problem(f"{said}: this numbers no shards", "write NUMBER/SHARDS instead", field=_FIELD))
    shard = Shard(place + 1, of)
    return shard, f"shard {shard}, as {found[0].name} says: {said}"


def check_shard(draft: Draft, datasets: Iterable[PlannedDataset]) -> None:
    """Check that the options and retrievers of a run go with shards. Problems go to the draft."""
    options, shard = draft.options, draft.options.shard
    if shard is None:
        return
    others = {
        "--fail-fast": (options.fail_fast, "no shard knows the verdict"),
        "--batch": (options.batch, "the answers of a batch come after the shard"),
        "--held-out": (options.held_out, "each shard would be logged as a use of the share"),
    }
    draft.problems += [
        Problem(f"{name} does not go with it: {why}", "remove one of the two", field=_FIELD)
        for name, (is_given, why) in others.items()
        if is_given
    ]
    draft.problems += [_explain_ingest(one) for one in datasets if _is_filled(one)]


def _is_filled(dataset: PlannedDataset) -> bool:
    planned = dataset.retriever
    if planned is None or planned.documents is None:
        return False
    from evalspec.targets.retrievers.stores import is_in_memory

    return not is_in_memory(planned.target)


def _explain_ingest(dataset: PlannedDataset) -> Problem:
    message = f"dataset '{dataset.name}': each shard would fill and empty the index of its retriever"
    return Problem(message, "fill the index once, and add --no-ingest", dataset.file, field=_FIELD)


def find_place(loaded: LoadedManifest, options: RunOptions) -> str | None:
    """Return where attempts are worked on: `ray` or `ray:HOST:PORT`, as the option or the manifest says; None: here."""
    on = loaded.manifest.spec.evaluation.run.on if options.on is None else options.on
    return None if on == HERE else on


def check_place(draft: Draft, datasets: Iterable[PlannedDataset]) -> None:
    """Check that a run can be worked on elsewhere, if it is to. Problems go to the draft."""
    options, spec = draft.options, draft.loaded.manifest.spec
    on = find_place(draft.loaded, options)
    if on is None:
        return
    field = "--on" if options.on is not None else "spec.evaluation.run.on"
    if not _PLACE.fullmatch(on):
        draft.problems.append(Problem(f"there is no place '{on}'", "write here, ray or ray:HOST:PORT", field=field))
        return
    world = spec.evaluation.environment
    asked = [one for one in datasets if one.retriever is not None and not options.has_replies]
    others = {
        "--shard": (options.shard is not None, "a shard is worked on in one process"),
        "--batch": (options.batch, "batches are collected by one process"),
        "--untrusted": (current_trust().is_limited, "nodes would run the project's code"),
        "an agent given as an object": (options.agent is not None, "nodes import it by its name in spec.api.python"),
        "receiving traces": (choose_traces(draft.loaded, options) is not None, "spans reach one process, use shards"),
        "asking a retriever": (bool(asked), "one process fills its index, use shards"),
        "a shared world": (world is not None and not world.isolated, "nodes would reset it under each other"),
        "a literal credential": (any(find_literals(draft.loaded.source.data)), "the manifest goes to all nodes"),
    }
    draft.problems += [
        Problem(f"{name} does not go with {on}: {why}", "remove one of the two", field=field)
        for name, (is_given, why) in others.items()
        if is_given
    ]
    if has_own_agents(draft.loaded, options) and PORT not in " ".join(spec.api.command or ()):
        message, fix = f"per-node needs a command with {PORT}", f'write it as in command: [serve, --port, "{PORT}"]'
        draft.problems.append(draft.loaded.problem((*API_PLACE, "command"), message, fix))
    draft.problems += _list_misfits(draft.loaded, list_shared_files(draft.loaded, list(datasets)), field)
    if find_spec("ray") is None:
        draft.problems.append(Problem("Ray is not installed", install_fix("ray"), field=field))


def has_own_agents(loaded: LoadedManifest, options: RunOptions) -> bool:
    """Return whether each node starts an agent of its own. A URL in the options of the run means another agent."""
    is_there = find_place(loaded, options) is not None
    return is_there and loaded.manifest.spec.evaluation.run.agent == "per-node" and options.url is None


def _list_misfits(loaded: LoadedManifest, files: Mapping[str, Path], field: str) -> Iterator[Problem]:
    """Yield why files cannot be given to nodes."""
    sizes = {name: path.stat().st_size for name, path in files.items()}
    for name in (name for name in files if name.startswith("..")):
        message = f"{name} is outside of {loaded.path.parent.resolve()}, so nodes do not get it"
        yield Problem(message, "move it beside the manifest", field=field)
    if sum(sizes.values()) > _MOST_BYTES:
        message = f"nodes need files of {sum(sizes.values()) >> 20:,} MiB, and get {_MOST_BYTES >> 20} at most"
        yield Problem(message, f"the largest is {max(sizes, key=lambda name: sizes[name])}", field=field)


def take_shard(datasets: Sequence[PlannedDataset], shard: Shard | None) -> tuple[PlannedDataset, ...]:
    """Return the datasets with the samples of a shard. None: all samples."""
    if shard is None:
        return tuple(datasets)
    dealt = deal({one.name: _list_clusters(one) for one in datasets}, shard.of)
    return tuple(_take(one, dealt[one.name], shard.number) for one in datasets)


def deal(datasets: Mapping[str, Iterable[Sequence[str]]], shards: int) -> dict[str, dict[str, int]]:
    """Return the shard of each sample, by dataset and id. `datasets`: clusters of ids.

    The largest clusters come first, then by digest, each to the shard that has the fewest samples, and of several to
    the first. So the loads of two shards differ by at most the largest cluster, and the order of files has no effect.
    """
    sized = [
        (-len(ids), compute_digest([name, sorted(ids)]), name, ids) for name, found in datasets.items() for ids in found
    ]
    loads = [(0, number) for number in range(1, shards + 1)]
    dealt: dict[str, dict[str, int]] = {name: {} for name in datasets}
    for _, _, name, ids in sorted(sized):
        load, number = loads[0]
        heapreplace(loads, (load + len(ids), number))
        dealt[name].update(dict.fromkeys(ids, number))
    return dealt


def _list_clusters(dataset: PlannedDataset) -> Iterable[Sequence[str]]:
    clusters: dict[Hashable, list[str]] = {}
    for sample in dataset.samples:
        clusters.setdefault(find_cluster(sample, dataset.config.cluster), []).append(sample.id)
    return clusters.values()


def _take(dataset: PlannedDataset, dealt: Mapping[str, int], number: int) -> PlannedDataset:
    own = [position for position, sample in enumerate(dataset.samples) if dealt[sample.id] == number]
    whole = WholeSelection(dataset.samples, tuple(own), is_first=min(dealt.values()) == number)
    samples = spool(sample for sample in dataset.samples if dealt[sample.id] == number)
    return replace(dataset, data=dataset.data.keep(samples), whole=whole)
