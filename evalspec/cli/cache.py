"""`evalspec cache`: look at the judge's cache, and empty it."""

import click
from msgspec import to_builtins

from evalspec.base.errors import ExitCode
from evalspec.base.foreign_text import inert
from evalspec.base.plural import counted
from evalspec.cli.documents import emit_document
from evalspec.cli.name_completion import complete_run
from evalspec.cli.options import json_option
from evalspec.cli.streams import emit, notify
from evalspec.runs.store.run_store import STORE, RunStore
from evalspec.scoring.judge.cache_file import NOTHING_EARLIER, CacheFile, CacheStats, CacheUse, use_cache


@click.group("cache", invoke_without_command=True)
@click.pass_context
def command(context: click.Context) -> None:
    """Show what the judge's cache holds, what a run took from it, and empty it.

    It is in .evalspec/cache beside the runs, or in the folder of EVALSPEC_CACHE_DIR.

    \b
    Examples:
      evalspec cache stats
      evalspec cache explain latest
    """
    if context.invoked_subcommand is None:
        emit(context.get_help())


@command.command("stats")
@json_option
def show_stats(as_json: bool) -> ExitCode:
    """Show the number of entries by kind, their size, and when the oldest and the newest one were asked.

    \b
    Example:
      evalspec cache stats --json
    """
    folder = RunStore(STORE).cache
    stats = use_cache(folder, CacheFile.describe, CacheStats({}, 0, None, None))
    if as_json:
        emit_document({"folder": str(folder), **to_builtins(stats)})
        return ExitCode.OK
    kinds = ", ".join(counted(number, kind) for kind, number in stats.entries.items())
    emit(f"{folder}: {kinds or 'no entries'}, {stats.bytes:,} bytes")
    if stats.oldest is not None:
        emit(f"asked from {stats.oldest} to {stats.newest}")
    return ExitCode.OK


@command.command("explain")
@click.argument("run", shell_complete=complete_run)
@json_option
def explain(run: str, as_json: bool) -> ExitCode:
    """Show for each metric of RUN how many results it took from the cache, how many it asked for, why, and since when.

    \b
    Example:
      evalspec cache explain latest
    """
    store = RunStore(STORE)
    name = store.find_own(run).name
    uses: list[CacheUse] = use_cache(store.cache, lambda file: file.list_uses(name), [])
    if as_json:
        emit_document({"id": name, "metrics": to_builtins(uses)})
        return ExitCode.OK
    if not uses:
        notify(f"the cache in {store.cache} has no results of run {name}")
    for use in uses:
        kind = "" if use.kind == use.metric else f": {use.kind}"
        asked = f"{use.asked:,} asked{_explain_asking(use)}"
        emit(f"{inert(use.metric)}{kind}: {use.cached:,} from the cache, {asked}, since {use.oldest}")
    return ExitCode.OK


def _explain_asking(use: CacheUse) -> str:
    """Return ` (2 with other texts)`: what differs where results were asked for; empty if that is unknown."""
    names = {name: name if name == NOTHING_EARLIER else f"other {name}" for name in use.why}
    why = ", ".join(f"{count:,} with {names[name]}" for name, count in use.why.items())
    return why and f" ({why})"


@command.command("clear")
@json_option
def clear(as_json: bool) -> ExitCode:
    """Remove all entries. The next run asks the judge for every score. Stored runs keep their scores.

    \b
    Example:
      evalspec cache clear
    """
    folder = RunStore(STORE).cache
    removed = use_cache(folder, CacheFile.clear, 0)
    if as_json:
        emit_document({"folder": str(folder), "removed": removed})
    else:
        notify(f"removed {counted(removed, 'entry', 'entries')} from {folder}")
    return ExitCode.OK
