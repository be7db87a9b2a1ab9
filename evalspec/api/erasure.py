"""Erase personal data from a project: stored runs, baselines and logs of jobs. What is out of reach is listed."""

from collections.abc import Callable, Collection, Iterable, Mapping
from functools import partial
from pathlib import Path

from msgspec import Struct, field

from evalspec.api.baseline_files import FindKeys, find_baselines, shorten_anchors, shorten_baseline
from evalspec.base.errors import EvalspecError, InvalidInput
from evalspec.curation.gold.quotes import Quotes, find_quoting
from evalspec.curation.labels.files import erase_labels
from evalspec.model.labels import Label
from evalspec.model.log import LOG_RECORD, InputRecord, TextRecord
from evalspec.runs.store.erasing import Key, Wanted, erase_samples, find_samples
from evalspec.runs.store.inputs import INPUTS_NAME, read_inputs
from evalspec.runs.store.log_records import read_log
from evalspec.runs.store.run_log import LOG_NAME
from evalspec.runs.store.run_store import BASELINES, STORE, RunStore
from evalspec.runs.store.stored_run import StoredRun, open_run
from evalspec.scoring.judge.cache_file import use_cache
from evalspec.verdict.comparison.baseline import KIND
from evalspec.verdict.correction.calibration_file import ANCHORS_KIND

SHORTEST_TEXT = 4
"""Shorter texts are in too many places by accident."""

_LOGS = "jobs"
_OF_RUNS = ("runs", "index")
"""The folders of the store with a folder for each run."""


class Erased(Struct):
    """What was taken out of stored runs, labels and baselines, or would be.

    `runs`: number of erased samples by run. `labels`: number of labels without their words by run. `baselines`: number
    of removed samples by file. `failed`: what has to be done again. `unreachable`: where the text may still be.
    """

    is_dry_run: bool
    runs: dict[str, int] = field(default_factory=dict)
    labels: dict[str, int] = field(default_factory=dict)
    baselines: dict[str, int] = field(default_factory=dict)
    failed: list[str] = field(default_factory=list)
    unreachable: list[str] = field(default_factory=list)


class Erasure(Erased):
    """What an erasure changed, or would change. Paths are relative to the project. `removed`: deleted files."""

    removed: list[str] = field(default_factory=list)


def erase(
    project: Path, texts: Collection[str] = (), samples: Collection[Key] = (), *, dry_run: bool = False
) -> Erasure:
    """Erase all samples that quote one of some texts, and the given samples, from what evalspec stored.

    Files that people wrote, such as datasets, are not changed, but listed if they quote a text.

    Args:
        project: Folder of the project.
        texts: Texts to erase, such as a name or an address. Case and line breaks do not matter.
        samples: Samples to erase, by dataset and id.
        dry_run: Change nothing.

    Raises:
        InvalidInput: Nothing is given, or a text is too short to search for.
        StoreError: The store cannot be read.
    """
    short = [text for text in texts if len(text.strip()) < SHORTEST_TEXT]
    if short or not (texts or samples):
        fix = f"give texts of at least {SHORTEST_TEXT} characters, or samples"
        raise InvalidInput("a text is too short to search for" if short else "there is nothing to erase", fix)
    done, quotes = Erasure(dry_run), Quotes(texts, shortest=1)
    keys = _erase_runs(project, quotes, set(samples), done)
    erase_cached(RunStore(project / STORE), set(samples).union(*keys.values()), quotes, done)
    erase_labels_on(project / STORE, keys, (), quotes, done)
    for folder in (project, project / STORE / BASELINES):
        shorten_baselines(
            folder,
            lambda run: keys.get(run, set()) | set(samples),  # without its stored run, it loses the given ones only
            lambda path: str(path.relative_to(project)),
            quotes,
            done,
        )
    _remove_logs(project, quotes, done)
    _list_unreachable(project, quotes, keys, done)
    done.failed = [line.replace(f"{project}/", "") for line in done.failed]
    return done


def render_scores(stored: StoredRun) -> Iterable[str]:
    """Render the JSON report of a run whose texts were erased."""
    from evalspec.reports.json_report import iterate_json
    from evalspec.runs.runner.reread import conclude_stored
    from evalspec.runs.runner.session import metadata_keys
    from evalspec.runs.store.run_redaction import withhold_texts

    run = conclude_stored(stored)
    return iterate_json(run if stored.outline.has_texts else withhold_texts(run, metadata_keys(stored.outline)))


def _erase_runs(project: Path, quotes: Quotes, samples: set[Key], done: Erasure) -> dict[str, set[Key]]:
    """Return the erased samples by run, including those that were erased before."""
    keys: dict[str, set[Key]] = {}
    for folder in RunStore(project / STORE).list():
        stored, found = erase_run(folder, lambda stored: _describe_wanted(stored, quotes, samples), done)
        if stored is not None and found:
            keys[stored.id] = found
    return keys


def erase_run(
    folder: Path, describe_wanted: Callable[[StoredRun], Wanted], done: Erased
) -> tuple[StoredRun | None, set[Key]]:
    """Erase samples from a run. Return it with all its erased samples, also earlier ones; None if that failed."""
    try:
        stored = open_run(folder)
        known = set(stored.read_index().erased)
        wanted = describe_wanted(stored)
        found = find_samples(stored, wanted) if done.is_dry_run else erase_samples(stored, wanted, render_scores)
    except EvalspecError as error:
        done.failed.append(str(error))
        return None, set()
    if found - known:
        done.runs[stored.id] = len(found - known)
    return stored, found


def erase_labels_on(
    store: Path, erased: Mapping[str, Collection[Key]], ids: Collection[str], quotes: Quotes, done: Erased
) -> None:
    """Erase words and hashes from labels on erased samples, and from labels that quote the texts.

    `store`: the `.evalspec` folder. `erased`: by run. For other runs, which were removed, only `ids` of samples are
    known.
    """

    def is_wanted(label: Label) -> bool:
        keys = erased.get(label.run)
        is_erased = label.sample in ids if keys is None else (label.dataset, label.sample) in keys
        return is_erased or (label.note is not None and quotes(label.note.encode()))

    try:
        done.labels |= erase_labels(store, is_wanted, dry_run=done.is_dry_run)
    except EvalspecError as error:
        done.failed.append(str(error))


def erase_cached(store: RunStore, samples: Collection[Key], quotes: Quotes, done: Erased) -> None:
    """Remove the results of the judge for samples, and those that quote the texts, from the cache of a store."""
    if done.is_dry_run:
        return
    try:
        use_cache(store.cache, lambda file: file.forget_samples(samples, quotes), 0)
    except EvalspecError as error:
        done.failed.append(str(error))


def shorten_baselines(
    folder: Path, find_keys: FindKeys, show: Callable[[Path], str], quotes: Quotes, done: Erased
) -> None:
    """Take samples out of the baselines and anchors below a folder.

    `find_keys`: as of `shorten_baseline`. `show`: for messages. `quotes`: as of `shorten_anchors`.
    """
    for kind, shorten in ((KIND, shorten_baseline), (ANCHORS_KIND, partial(shorten_anchors, quotes))):
        for path in sorted(find_baselines(folder, kind)):
            try:
                removed = shorten(path, show(path), find_keys, is_dry_run=done.is_dry_run)
                if removed:
                    done.baselines[show(path)] = removed
            except (EvalspecError, OSError) as error:
                done.failed.append(f"{show(path)}: {error}")


def _describe_wanted(stored: StoredRun, quotes: Quotes, samples: set[Key]) -> Wanted:
    """Return what to erase from a run. Retrieved texts are stored once, so the replies that name them are found."""
    from evalspec.runs.runner.session import metadata_keys

    log = (record for _, record in read_log(stored.folder / LOG_NAME, LOG_RECORD))
    texts = (record for record in log if isinstance(record, TextRecord))
    digests = [one.digest.encode() for one in texts if quotes(one.text.encode(errors="replace"))]
    kept = set(metadata_keys(stored.outline))  # the slices of the run need them, unless a value is the text
    for _, sample in read_inputs(stored.folder / INPUTS_NAME):
        metadata = sample.metadata
        kept -= {key for key in kept & metadata.keys() if quotes(str(metadata[key]).encode(errors="replace"))}

    def is_wanted(record: InputRecord) -> bool:
        return (record.dataset, record.sample.id) in samples

    return Wanted(is_wanted, _find_any(quotes, digests), quotes, kept)


def _find_any(quotes: Quotes, digests: Collection[bytes]) -> Callable[[bytes], bool]:
    return lambda content: quotes(content) or any(digest in content for digest in digests)


def _remove_logs(project: Path, quotes: Quotes, done: Erasure) -> None:
    """Delete logs of jobs that quote a text: user code may print it."""
    folder = project / STORE / _LOGS
    quoting, _ = find_quoting(folder, quotes)
    for path in quoting:
        done.removed.append(str(path.relative_to(project)))
        if not done.is_dry_run:
            path.unlink(missing_ok=True)


def _list_unreachable(project: Path, quotes: Quotes, keys: Mapping[str, set[Key]], done: Erasure) -> None:
    quoting, unread = find_quoting(project, quotes)
    removed = {project / name for name in done.removed}
    cached = RunStore(project / STORE).cache.resolve()
    for path in quoting:
        shown = path.relative_to(project)
        is_of_run = len(shown.parts) > 2 and shown.parts[0] == str(STORE) and shown.parts[1] in _OF_RUNS
        is_changing = (is_of_run and shown.parts[2] in keys) or path.resolve().parent == cached
        if path not in removed and not (done.is_dry_run and is_changing):
            done.unreachable.append(f"{shown} still quotes a text")
    done.unreachable += [f"{path.relative_to(project)} cannot be searched" for path in unread]
    done.unreachable += [
        "backups, clones and caches of CI",
        "reports and datasets that were written or sent elsewhere",
        "the services that answered or judged the samples",
    ]
