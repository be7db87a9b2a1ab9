"""`evalspec gold slice`: draw a working slice, or show one."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from msgspec.structs import asdict
from pydantic.alias_generators import to_camel

from evalspec.base.errors import ExitCode, InvalidInput, Problem
from evalspec.base.foreign_text import inert
from evalspec.base.plural import counted
from evalspec.cli.documents import emit_document
from evalspec.cli.gold.options import open_as, set_options
from evalspec.cli.streams import emit, emit_line, notify
from evalspec.curation.gold.files import show
from evalspec.curation.gold.gold_set import find_set, open_set
from evalspec.curation.gold.layout import SLICES
from evalspec.curation.gold.slices import STRATA, DrawnSlice, Slice, draw_slice, group_by_stratum, open_slice

if TYPE_CHECKING:
    from evalspec.api.gold_slices import SliceSignal


@click.command("slice")
@click.option("--size", type=click.IntRange(min=1), metavar="N", help="Number of triples.")
@click.option("--name", metavar="NAME", help="Name of the new slice.")
@click.option("--seed", type=int, default=0, metavar="N", help="Seed of the draw.")
@click.option("--show", "shown", metavar="NAME", help="Show a slice instead of drawing one.")
@set_options
def slice_command(
    size: int | None,
    name: str | None,
    seed: int,
    shown: str | None,
    person: str | None,
    folder: Path | None,
    as_json: bool,
) -> ExitCode:
    """Draw a working slice for cheap runs: `evaluate --slice NAME`. It is written to slices/NAME.yaml.

    The draw is stratified by domain, difficulty and source. It leaves out the held-out share of the set, and the
    triples of earlier slices until all are used. A slice is never refilled.

    The output includes how much of the full set's signal the slice keeps: the correlation of the differences between
    configurations, on the slice and on the full set, from at least 8 stored runs of the full set.

    \b
    Examples:
      evalspec gold slice --size 120 --name 2026Q4
      evalspec gold slice --show 2026Q4
    """
    from evalspec.api.gold_slices import measure_signal

    if shown is not None:
        if size is not None or name is not None:
            raise InvalidInput(Problem("shows a slice that exists", "remove --size and --name", field="--show"))
        root = find_set(folder)
        found, drawn = open_slice(open_set(root), shown), None
    else:
        if size is None or name is None:
            fix = "for example: evalspec gold slice --size 120 --name 2026Q4"
            raise InvalidInput(Problem("a new slice needs --size and --name", fix))
        root, by = open_as(folder, person)
        drawn = draw_slice(root, name, size, by, seed=seed)
        found = drawn.slice
    signal = measure_signal(found, root)
    if as_json:
        emit_document(describe_slice(found, root, drawn, signal))
        return ExitCode.OK
    for line in _render(found, drawn):
        emit(line)
    emit_line(render_signal(signal))
    notify(f"{'drew' if drawn else 'read'} {show(root / SLICES / found.name)}.yaml")
    return ExitCode.OK


def describe_slice(found: Slice, root: Path, drawn: DrawnSlice | None, signal: "SliceSignal") -> dict[str, Any]:
    """Return a slice as a document. `poolSize` of a stratum: triples that could be drawn; null for an older slice."""
    file = found.file
    strata = [
        {**dict(zip(STRATA, stratum, strict=True)), "triples": count, "poolSize": pool}
        for stratum, count, pool in _list_strata(found, drawn)
    ]
    pool = {"round": drawn.pool.round, "size": len(drawn.pool.entries), "heldOut": drawn.pool.held_out} if drawn else {}
    return {
        **_in_camel_case(file.model_dump(exclude={"removed"})),
        "file": str(root / SLICES / f"{file.name}.yaml"),
        "usable": len(found.entries),
        "missing": {cause: list(ids) for cause, ids in found.missing.items()},
        "strata": strata,
        **({"pool": pool} if pool else {}),
        "signal": _in_camel_case(asdict(signal)),
    }


def _in_camel_case(fields: Mapping[str, Any]) -> dict[str, Any]:
    return {to_camel(name): value for name, value in fields.items()}


def render_signal(signal: "SliceSignal") -> str:
    """Return how much of the full set's signal a slice keeps, on one line."""
    excluded = ", ".join(f"{count} excluded: {cause}" for cause, count in signal.excluded_runs.items())
    more = f" ({excluded})" if excluded else ""
    if signal.correlation is None or signal.interval is None:
        return f"signal of the full set: unknown: {signal.reason}{more}"
    low, high = signal.interval
    return (
        f"signal of the full set: correlation {signal.correlation:.2f} (95 % interval {low:.2f} to {high:.2f}) of the "
        f"differences in {signal.metric} between {signal.configurations} configurations, {signal.triples:,} of "
        f"{signal.full_triples:,} triples{more}"
    )


def _list_strata(found: Slice, drawn: DrawnSlice | None) -> Iterator[tuple[tuple[str, ...], int, int | None]]:
    """Yield each stratum with its number of triples in the slice, and in the pool if that is known."""
    if drawn is not None:
        yield from ((stratum, count, pool) for stratum, (pool, count) in drawn.strata.items())
        return
    for stratum, entries in sorted(group_by_stratum(found.entries).items()):
        yield stratum, len(entries), None


def _render(found: Slice, drawn: DrawnSlice | None) -> Iterator[str]:
    file = found.file
    yield f"{inert(file.name)}: {counted(len(found.entries), 'triple')}, round {file.round}, seed {file.seed}"
    missing = found.describe_missing()
    if missing is not None:
        yield inert(missing)
    for stratum, count, pool in _list_strata(found, drawn):
        yield f"  {inert(' · '.join(stratum))}: {count:,}{'' if pool is None else f' of {pool:,}'}"
    if drawn is not None:
        left = len(drawn.pool.entries) - len(found.entries)
        empty = sum(not count for _, count in drawn.strata.values())
        yield f"left in round {file.round}: {counted(left, 'triple')}; held out: {drawn.pool.held_out:,}"
        if empty:
            yield f"{empty:,} of {len(drawn.strata):,} strata have no triple in the slice; a larger size includes them"
