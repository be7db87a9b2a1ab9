"""Read a stored run: its fingerprint, its outline, its log and its samples."""

import json
from collections.abc import Collection, Iterator
from math import inf
from pathlib import Path

from msgspec import Struct, ValidationError, convert

from evalspec.base.errors import StoreError
from evalspec.base.jsonl import FINITE
from evalspec.model import HIGHEST_GRADE, Sample, StoredExchange
from evalspec.model.base import built
from evalspec.model.fingerprints import Fingerprint, ManifestDigest, SelectionDigest
from evalspec.model.log import Change
from evalspec.runs.store.files import store_errors
from evalspec.runs.store.inputs import INPUTS_NAME, read_inputs
from evalspec.runs.store.log_index import LogIndex, read_log_index, read_log_seal
from evalspec.runs.store.log_records import describe_repair
from evalspec.runs.store.run_log import (
    BASELINE_NAME,
    DESCRIPTION_NAME,
    LOG_NAME,
    REPORT_NAME,
    STORE_VERSION,
    compute_checksum,
)
from evalspec.verdict.outline import RunOutline, parse_outline


class StoredRun(Struct, frozen=True):
    """One run folder. The log and the samples are read on demand."""

    folder: Path
    fingerprint: Fingerprint
    outline: RunOutline

    @property
    def id(self) -> str:
        """The run's id: UTC time and short id."""
        return self.folder.name

    @property
    def manifest_path(self) -> Path:
        """The path of the manifest, as it was given."""
        return Path((self.fingerprint.manifest or ManifestDigest()).path)

    @property
    def selection(self) -> SelectionDigest:
        """The options that selected samples and retrievers."""
        return self.fingerprint.selection or SelectionDigest()

    @property
    def report(self) -> Path:
        """The path of the JSON report, which exists once the run is finished."""
        return self.folder / REPORT_NAME

    @property
    def baseline(self) -> Path:
        """The path of the run's copy of its baseline, which exists if it has one."""
        return self.folder / BASELINE_NAME

    def read_seal(self) -> LogIndex:
        """Return the index of the log without its attempts, which is read in a third of the time.

        Raises:
            StoreError: The log cannot be read.
        """
        log = self.folder / LOG_NAME
        return read_log_seal(log) if log.exists() else LogIndex(log)

    def read_index(self, restore: Change | None = None) -> LogIndex:
        """Return the index of the log. `restore`: restores redacted values in texts.

        Raises:
            StoreError: The log cannot be read.
        """
        log = self.folder / LOG_NAME
        index = LogIndex(log)
        if log.exists():
            index = read_log_index(log) if restore is None else read_log_index(log, restore)
            self._refuse_impossible(index)
        return index

    def _refuse_impossible(self, index: LogIndex) -> None:
        """Raise if a score is outside the range of its metric: evalspec did not write it, despite the checksum."""
        reaches = {(d.name, m.name): m.reach for d in self.outline.datasets for m in d.metrics if m.reach is not None}
        for key, attempt in index.attempts.items():
            for metric, score in attempt.scores.items():
                low, high = reaches.get((key.dataset, metric), (-inf, inf))
                if score.value is not None and not low <= score.value <= high:
                    fault = f"{metric} of '{key.sample_id}' is {score.value:g}, outside {low:g} to {high:g}"
                    raise StoreError(f"{index.path}: {fault}. the file was changed; restore it or remove the run")

    def read_whole_index(self, restore: Change | None = None) -> LogIndex:
        """Return the index of the log, which must be undamaged. `restore`: restores redacted values in texts.

        Raises:
            StoreError: The log is damaged or cannot be read.
        """
        index = self.read_index(restore)
        if index.damage:
            raise StoreError(f"{index.damage[0]}. {describe_repair(self.id)}")
        return index

    def read_samples(self) -> Iterator[tuple[str, Sample]]:
        """Return the selected samples, each with the name of its dataset. Texts are empty if the run has none.

        Raises:
            StoreError: The samples cannot be read.
        """
        path, known = self.folder / INPUTS_NAME, {dataset.name for dataset in self.outline.datasets}
        for number, (dataset, sample) in enumerate(read_inputs(path), 1):
            if dataset not in known or not _is_sound(sample):
                raise StoreError(f"{path}:{number}: not a sample of this run. the file was changed; restore it")
            yield dataset, sample

    def read_exchanges(self, wanted: Collection[tuple[str, str]] | None = None) -> Iterator[StoredExchange]:
        """Return all attempts with their texts, in the order of the samples. Nothing if the run has no texts.

        `wanted`: only samples with these datasets and ids.

        Raises:
            StoreError: The run cannot be read.
        """
        if self.outline.has_texts:
            read = ((name, one) for name, one in self.read_samples() if wanted is None or (name, one.id) in wanted)
            yield from self.read_whole_index().read_exchanges(read, self.outline.repeats)


def _is_sound(sample: Sample) -> bool:
    """Return whether the grades of a sample and the end of its conversation are valid. Types are checked before."""
    turns = () if isinstance(sample.user_input, str) else sample.user_input
    grades = (sample.qrels or {}).values()
    return all(abs(grade) <= HIGHEST_GRADE for grade in grades) and (not turns or turns[-1].role == "user")


def open_run(folder: Path) -> StoredRun:
    """Open a stored run.

    Raises:
        StoreError: The folder is not a run, the run is damaged, or another version of evalspec wrote it.
    """
    path = folder / DESCRIPTION_NAME
    if not path.is_file():
        raise StoreError(f"{folder}: not a run: {DESCRIPTION_NAME} is missing. `evalspec runs list` shows all runs")
    with store_errors(path):
        text = path.read_bytes()
    try:
        document = json.loads(text, **FINITE)
        version = document["storeVersion"]
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise StoreError(f"{path}: not the description of a run: {error}. restore it or remove the run") from error
    if not isinstance(version, int) or version > STORE_VERSION:
        raise StoreError(f"{path}: written by a later version of evalspec (layout {version!r}). update evalspec")
    if version < STORE_VERSION:
        raise StoreError(
            f"{path}: written before the first release (layout {version}). run it again, or remove the run"
        )
    if document.get("sha256") != compute_checksum(document):
        raise StoreError(f"{path}: damaged: the checksum does not match. restore it or remove the run")
    if not isinstance(document.get("fingerprint"), dict):
        raise StoreError(f"{path}: not the description of a run: no fingerprint. restore it or remove the run")
    try:
        fingerprint = convert(document["fingerprint"], built(Fingerprint))
    except (ValidationError, UnicodeEncodeError) as error:
        raise StoreError(f"{path}: fingerprint: {error}. restore it or remove the run") from error
    missing = [name for name in ("manifest", "agent", "selection", "repeats") if getattr(fingerprint, name) is None]
    if missing:
        raise StoreError(f"{path}: fingerprint: there is no {missing[0]}. restore it or remove the run")
    return StoredRun(folder, fingerprint, parse_outline(document.get("outline"), str(path)))
