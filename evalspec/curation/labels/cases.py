"""A stored run to label, with its samples in memory."""

from collections.abc import Iterator, Mapping, Sequence

from evalspec.curation.labels.files import LabelFiles
from evalspec.curation.labels.judged_run import NO_TEXTS, JudgedRun
from evalspec.model import Exchange, Sample, SampleStatus, Score
from evalspec.model.shards import refuse_shard
from evalspec.runs.store.log_index import AttemptKey
from evalspec.runs.store.run_store import RunStore
from evalspec.runs.store.stored_run import open_run


class LabelledRun(JudgedRun):
    """A stored run with its samples in memory, opened once to label it or to compare labels with it."""

    def __init__(self, store: RunStore, name: str) -> None:
        """`name`: an id, its beginning, a name of the run, or `latest`; no path, because labels are kept in the store.

        Raises:
            InvalidInput: There is no such run, or it is a shard.
            StoreError: The run is damaged.
        """
        super().__init__(open_run(store.find_own(name)), LabelFiles(store.root))
        refuse_shard(self.stored.id, self.stored.fingerprint, "labelled")
        self.index = self.stored.read_whole_index()
        self._samples = {(dataset, sample.id): sample for dataset, sample in self.stored.read_samples()}

    def find_sample(self, dataset: str, id: str) -> Sample | None:
        """Return a sample, None if the run has none with this id."""
        return self._samples.get((dataset, id))

    def list_ids(self, dataset: str | None) -> list[str]:
        """Return the ids of all samples, or of those of a dataset."""
        return [id for name, id in self._samples if dataset in (None, name)]

    def is_erased(self, dataset: str, sample: str) -> bool:
        """Return whether the texts of a sample were erased."""
        return (dataset, sample) in self.index.erased

    def read_attempt(self, dataset: str, sample: Sample, attempt: int) -> tuple[Exchange, Mapping[str, Score]] | None:
        """Return the reply and the scores of an attempt, None if the run has none with this number."""
        stored = self.index.attempts.get(AttemptKey(dataset, sample.id, attempt))
        if stored is None or self.is_erased(dataset, sample.id):
            return None if stored is None else (Exchange(sample, error=NO_TEXTS), stored.scores)
        exchanges = self.index.read_exchanges(iter([(dataset, sample)]), attempt)
        found = next((one for one in exchanges if one.attempt == attempt), None)
        return (Exchange(sample, error=NO_TEXTS), stored.scores) if found is None else (found.exchange, found.scores)

    def list_answered(self, dataset: str) -> Iterator[tuple[Sample, Sequence[tuple[int, Mapping[str, Score]]]]]:
        """Yield each sample of a dataset with its answered attempts."""
        for (name, id), sample in self._samples.items():
            if name == dataset:
                yield sample, [] if self.is_erased(name, id) else list(self._list_attempts(name, id))

    def _list_attempts(self, dataset: str, id: str) -> Iterator[tuple[int, Mapping[str, Score]]]:
        for attempt in range(1, self.stored.outline.repeats + 1):
            stored = self.index.attempts.get(AttemptKey(dataset, id, attempt))
            if stored is not None and stored.attempt.status is SampleStatus.ANSWERED:
                yield attempt, stored.scores
