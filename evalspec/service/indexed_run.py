"""A run that people label in the service: its samples are read one by one from their index, however many there are."""

import threading
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path

from evalspec.curation.labels.binding import LabelMatch
from evalspec.curation.labels.current import list_current
from evalspec.curation.labels.files import LabelFiles, hash_label
from evalspec.curation.labels.judged_run import NO_TEXTS, CaseFilter, JudgedRun
from evalspec.model import Exchange, Sample, SampleResult, SampleStatus, Score
from evalspec.model.labels import Label, Target
from evalspec.runs.store.derived import sign_run
from evalspec.runs.store.stored_run import open_run
from evalspec.service.access import Access
from evalspec.service.sample_index import SampleRow, open_sample_index
from evalspec.service.sample_pages import find_row, list_results, read_sample, read_stored_attempts
from evalspec.verdict.stats.clusters import find_cluster

_FILTERS_KEPT = 4
_MATCHES_KEPT = 100_000
_RUNS_KEPT = 8


class IndexedRun(JudgedRun):
    """A stored run with an index of its samples, which must be current. Safe to use from several threads."""

    def __init__(self, folder: Path, files: LabelFiles) -> None:
        """`folder`: of the run."""
        super().__init__(open_run(folder), files)
        self.folder = folder
        self._guard = threading.Lock()
        self._open = threading.local()
        self._targets: dict[CaseFilter, list[Target]] = {}
        self._matches: dict[str, LabelMatch] = {}
        self._labellers: tuple[Sequence[Label], Mapping[Target, Mapping[str, bool]]] | None = None
        self._last: tuple[tuple[str, str], SampleRow | None] | None = None

    @contextmanager
    def keep_open(self) -> Iterator[None]:
        """Keep the index open, for this thread to read many samples. Otherwise each opens it again.

        Raises:
            StoreError: The index cannot be read.
        """
        with open_sample_index(self.folder) as self._open.index:
            try:
                yield
            finally:
                del self._open.index

    def _find_row(self, dataset: str, id: str) -> SampleRow | None:
        """Return the row of a sample. The last one is kept: whoever reads a case asks for it several times."""
        last = self._last
        if last is None or last[0] != (dataset, id):
            last = self._last = (dataset, id), find_row(self.folder, dataset, id, getattr(self._open, "index", None))
        return last[1]

    def find_unit(self, dataset: str, sample: str) -> Hashable:
        """Return the cluster of a sample of the run, without its texts."""
        row = self._find_row(dataset, sample)
        return dataset, sample if row is None else find_cluster(row.result, self.outlines[dataset].cluster)

    def find_sample(self, dataset: str, id: str) -> Sample | None:
        """Return a sample, None if the run has none with this id."""
        row = self._find_row(dataset, id)
        return None if row is None else read_sample(self.folder, row)

    def read_labellers(self) -> Mapping[Target, Mapping[str, bool]]:
        """Return who has labelled what, in the order of time, and whether blindly. Computed once for the same labels.

        Raises:
            InvalidInput: A file of labels is damaged.
        """
        labels, known = self.read_labels(), self._labellers
        if known is None or known[0] is not labels:
            found: dict[Target, dict[str, bool]] = {}
            for one in list_current(labels):
                found.setdefault(one.target, {})[one.labeller] = one.is_blind
            known = self._labellers = labels, found
        return known[1]

    def has_sample(self, dataset: str, sample: str) -> bool:
        """Return whether the run has a sample."""
        return self._find_row(dataset, sample) is not None

    def list_ids(self, dataset: str | None) -> list[str]:  # noqa: ARG002
        """Return no ids: a run may have 100,000, and the caller has got them from a list."""
        return []

    def is_erased(self, dataset: str, sample: str) -> bool:
        """Return whether the texts of a sample were erased."""
        row = self._find_row(dataset, sample)
        return row is not None and self.stored.outline.has_texts and row.question is None

    def read_attempt(self, dataset: str, sample: Sample, attempt: int) -> tuple[Exchange, Mapping[str, Score]] | None:
        """Return the reply and the scores of an attempt, None if the run has none with this number."""
        row = self._find_row(dataset, sample.id)
        if row is None or attempt not in (number for number, _, _ in row.places):
            return None
        if row.question is not None:
            for one in read_stored_attempts(self.folder, row, sample):
                if one.attempt == attempt:
                    return one.exchange, one.scores
        scores = dict(_list_attempts(row.result)).get(attempt, row.result.scores)
        return Exchange(sample, error=NO_TEXTS), scores

    def list_answered(self, dataset: str) -> Iterator[tuple[Sample, Sequence[tuple[int, Mapping[str, Score]]]]]:
        """Yield each sample of a dataset with its answered attempts."""
        for result, is_kept in list_results(self.folder, dataset):
            sample = Sample(id=result.id, user_input="", tags=result.tags, metadata=result.metadata)
            yield sample, list(_list_attempts(result)) if is_kept else []

    def list_targets(self, wanted: CaseFilter) -> list[Target]:
        """Return what can be labelled. It is computed once for each filter.

        Raises:
            InvalidInput: There is no such dataset, metric or key, or no threshold to be beyond.
        """
        with self._guard:
            if wanted not in self._targets:
                found = super().list_targets(wanted)
                while len(self._targets) >= _FILTERS_KEPT:
                    del self._targets[next(iter(self._targets))]
                self._targets[wanted] = found
            return self._targets[wanted]

    def list_matches(self, target: Target, labels: Sequence[Label]) -> Iterable[tuple[Label, LabelMatch]]:
        """Return what each label on one target says about the run. The texts are read once for each label."""
        names = [hash_label(one) for one in labels]
        known = [(one, self._matches.get(name)) for one, name in zip(labels, names, strict=True)]
        kept = [(one, match) for one, match in known if match is not None]
        if len(kept) == len(labels):
            return kept
        found = list(super().list_matches(target, labels))
        if len(self._matches) > _MATCHES_KEPT:
            self._matches = {}
        self._matches |= {name: match for name, (_, match) in zip(names, found, strict=True)}
        return found


def open_indexed_run(access: Access, run_id: str) -> IndexedRun:
    """Return a run of the namespace to label.

    Raises:
        ApiProblem: 404: There is no such run. 409: It is in progress or damaged. 503: Its index is being written.
        StoreError: The run is damaged.
    """
    folder = access.find_indexed(run_id)
    return _open(folder, find_label_files(access.project.root), sign_run(folder))


@lru_cache(maxsize=_RUNS_KEPT)
def _open(folder: Path, files: LabelFiles, _signature: str) -> IndexedRun:
    return IndexedRun(folder, files)


@lru_cache(maxsize=1000)
def find_label_files(root: Path) -> LabelFiles:
    """Return the labels of a store, each file read once. `root`: the `.evalspec` folder."""
    return LabelFiles(root)


def _list_attempts(result: SampleResult) -> Iterator[tuple[int, Mapping[str, Score]]]:
    """Yield number and scores of the answered attempts at a sample."""
    if not result.attempts and result.status is SampleStatus.ANSWERED:
        yield 1, result.scores
    for number, attempt in enumerate(result.attempts, 1):
        if attempt.status is SampleStatus.ANSWERED:
            yield number, attempt.scores
