"""The replies and scores of a stored run that people can label."""

from collections.abc import Collection, Hashable, Iterator, Mapping, Sequence
from typing import Any

from msgspec import Struct

from evalspec.attempts import reply_limits
from evalspec.datasets.selection import Selection, select
from evalspec.errors import InvalidInput, Problem
from evalspec.labels.binding import Case
from evalspec.labels.files import Known, read_labels
from evalspec.model import Exchange, Sample, SampleStatus, ScoreStatus, Threshold
from evalspec.model.labels import Label
from evalspec.outline import DatasetOutline, MetricOutline
from evalspec.registry import near_miss
from evalspec.store.log_index import AttemptKey, StoredAttempt
from evalspec.store.run_store import RunStore
from evalspec.store.stored_run import StoredRun, open_run
from evalspec.summary import find_cluster, in_slice

_ERASED = "erased"


class CaseFilter(Struct, frozen=True):
    """Which replies or scores to label.

    `metric`: label the scores of this metric; None: the replies. `failed`: only replies with a score beyond one of
    their thresholds. `beyond`: only scores beyond a threshold of the metric.
    """

    metric: str | None = None
    datasets: Sequence[str] = ()
    selection: Selection = Selection()
    failed: bool = False
    beyond: bool = False


class LabelledRun:
    """A stored run with its samples in memory, opened once to label it or to compare labels with it."""

    def __init__(self, store: RunStore, name: str) -> None:
        """`name`: an id, its beginning, a name of the run, or `latest`; no path, because labels are kept in the store.

        Raises:
            InvalidInput: There is no such run.
            StoreError: The run is damaged.
        """
        self.stored: StoredRun = open_run(store.find_own(name))
        self.root = store.root
        self.index = self.stored.read_whole_index()
        self._outlines = {dataset.name: dataset for dataset in self.stored.outline.datasets}
        self._identities: Mapping[str, Mapping[str, Mapping[str, str]]] = {
            entry["name"]: entry.get("metricIdentities", {}) for entry in self.stored.fingerprint["datasets"]
        }
        self._known: Known = {}
        self._samples = {(dataset, sample.id): sample for dataset, sample in self.stored.read_samples()}

    @property
    def id(self) -> str:
        """The id of the run."""
        return self.stored.id

    def read_labels(self) -> list[Label]:
        """Return all labels of the run as they are now. Replaced and withdrawn ones are included.

        Raises:
            InvalidInput: A file of labels is damaged.
        """
        return read_labels(self.root, self.id, self._known)

    def require_texts(self) -> None:
        """Check that there is something to read.

        Raises:
            InvalidInput: The run was made with --no-content.
        """
        if not self.stored.outline.has_texts:
            message = f"run {self.id} stores no texts (--no-content), so nobody can read what to label"
            raise InvalidInput(message, "label a run that was made without --no-content")

    def list_targets(self, wanted: CaseFilter) -> list[tuple[str, str, int, str | None]]:
        """Return what can be labelled, in the order of the run: dataset, sample, attempt, metric.

        Raises:
            InvalidInput: There is no such dataset, metric or key, or no threshold to be beyond.
        """
        self._check(wanted)
        return [
            (dataset, sample.id, attempt, wanted.metric)
            for dataset in wanted.datasets or self._outlines
            for sample in self._select(dataset, wanted)
            for attempt in self._list_attempts(dataset, sample, wanted)
        ]

    def find_case(self, dataset: str | None, sample: str, attempt: int, metric: str | None) -> Case:
        """Return what to label, with all texts. `dataset`: None if only one has such a sample.

        Raises:
            InvalidInput: There is no such reply or score, or its text was erased.
        """
        self.require_texts()
        place = self.find_dataset(dataset, sample)
        if metric is not None:
            self.find_metric(place, metric)
        case = self.read_case((place, sample, attempt, metric))
        if case is None or case.is_erased or case.exchange.reply is None:
            why = self._explain_absence(sample, attempt, case)
            raise InvalidInput(Problem(why, "label another sample", field="--sample"))
        if metric is not None and (case.score is None or case.score.value is None):
            said = case.score.reason if case.score and case.score.reason else "the run is not finished"
            message = f"'{sample}' has no score of {metric}: {said}"
            raise InvalidInput(Problem(message, "label the reply, or another metric", field="--metric"))
        return case

    def find_dataset(self, dataset: str | None, sample: str) -> str:
        """Return the dataset of a sample.

        Raises:
            InvalidInput: There is none, or several have a sample of this id.
        """
        if dataset is not None and dataset not in self._outlines:
            raise InvalidInput(_unknown("dataset", dataset, self._outlines, self.id))
        found = [name for name, known in self._samples if known == sample and dataset in (None, name)]
        if not found:
            names = [known for name, known in self._samples if dataset in (None, name)]
            raise InvalidInput(_unknown("sample", sample, names, self.id))
        if len(found) > 1:
            message = f"'{sample}' is in several datasets: {', '.join(found)}"
            raise InvalidInput(Problem(message, "name one", field="--dataset"))
        return found[0]

    def find_metric(self, dataset: str, metric: str) -> MetricOutline:
        """Return a metric of a dataset.

        Raises:
            InvalidInput: The dataset has no such metric.
        """
        metrics = {one.name: one for one in self._outlines[dataset].metrics}
        if metric not in metrics:
            raise InvalidInput(_unknown("metric", metric, metrics, self.id))
        return metrics[metric]

    def find_judge(self, dataset: str, metric: str) -> str | None:
        """Return the judge of a metric as its identity names it; None if it has none."""
        return self._identities.get(dataset, {}).get(metric, {}).get("judge")

    def find_limits(self, dataset: str, sample: Sample, metric: str | None = None) -> list[Threshold]:
        """Return the thresholds that apply to single replies of a sample. `metric`: only those of this one."""
        outline = self._outlines[dataset]
        limits = reply_limits(outline.thresholds, {one.name: one.statistic for one in outline.metrics})
        return [one for one in limits if metric in (None, one.metric) and in_slice(sample, one.slice)]

    def find_unit(self, dataset: str, sample: str) -> Hashable:
        """Return the cluster of a sample of the run. Samples of one cluster are not independent."""
        return dataset, find_cluster(self._samples[dataset, sample], self._outlines[dataset].cluster)

    def is_erased(self, dataset: str, sample: str) -> bool:
        """Return whether the texts of a sample were erased."""
        return (dataset, sample) in self.index.erased

    def has_sample(self, dataset: str, sample: str) -> bool:
        """Return whether the run has a sample."""
        return (dataset, sample) in self._samples

    def read_case(self, target: tuple[str, str, int, str | None]) -> Case | None:
        """Return a reply or a score with all texts; None if the run has no such attempt, or no such metric."""
        dataset, sample, attempt, metric = target
        stored = self.index.attempts.get(AttemptKey(dataset, sample, attempt))
        metrics = {one.name: one for one in self._outlines[dataset].metrics} if dataset in self._outlines else {}
        if stored is None or (metric is not None and metric not in metrics):
            return None
        known, case = self._samples[dataset, sample], metrics.get(metric or "")
        identity = self._identities.get(dataset, {}).get(metric or "", {})
        if self.is_erased(dataset, sample):
            erased = Exchange(known, error=_ERASED)
            return Case(self.id, dataset, attempt, erased, stored.scores, case, identity, is_erased=True)
        exchange, scores = self._read_texts(stored, known, dataset, attempt)
        return Case(self.id, dataset, attempt, exchange, scores, case, identity)

    def _read_texts(self, stored: StoredAttempt, sample: Sample, dataset: str, attempt: int) -> tuple[Exchange, Any]:
        samples = iter([(dataset, sample)])
        exchanges = self.index.read_exchanges(samples, attempt)
        found = next((one for one in exchanges if one.attempt == attempt), None)
        return (Exchange(sample, error="no texts"), stored.scores) if found is None else (found.exchange, found.scores)

    def _select(self, dataset: str, wanted: CaseFilter) -> Sequence[Sample]:
        samples = [
            sample
            for (name, _), sample in self._samples.items()
            if name == dataset and any(True for _ in self._list_attempts(dataset, sample, wanted))
        ]
        return select(samples, wanted.selection)

    def _list_attempts(self, dataset: str, sample: Sample, wanted: CaseFilter) -> Iterator[int]:
        """Yield the attempts at a sample that can be labelled and are wanted."""
        if self.is_erased(dataset, sample.id):
            return
        limits = self.find_limits(dataset, sample, wanted.metric if wanted.beyond else None)
        for attempt in range(1, self.stored.outline.repeats + 1):
            stored = self.index.attempts.get(AttemptKey(dataset, sample.id, attempt))
            if stored is None or stored.status is not SampleStatus.ANSWERED:
                continue
            score = stored.scores.get(wanted.metric or "")
            if wanted.metric is not None and (score is None or score.status is not ScoreStatus.SCORED):
                continue
            if not (wanted.failed or wanted.beyond) or _is_beyond(stored, limits):
                yield attempt

    def _check(self, wanted: CaseFilter) -> None:
        for dataset in wanted.datasets:
            if dataset not in self._outlines:
                raise InvalidInput(_unknown("dataset", dataset, self._outlines, self.id))
        chosen = [self._outlines[name] for name in wanted.datasets or self._outlines]
        metrics = {metric.name for dataset in chosen for metric in dataset.metrics}
        if wanted.metric is not None and wanted.metric not in metrics:
            raise InvalidInput(_unknown("metric", wanted.metric, metrics, self.id))
        if wanted.beyond and wanted.metric is None:
            raise InvalidInput(Problem("needs a metric", "add --metric METRIC", field="--below-threshold"))
        if (wanted.failed or wanted.beyond) and not any(_has_limit(one, wanted) for one in chosen):
            what = f"no threshold on {wanted.metric}" if wanted.beyond else "no thresholds"
            option = "--below-threshold" if wanted.beyond else "--failed"
            raise InvalidInput(Problem(f"run {self.id} has {what}", f"leave out {option}", field=option))
        wanted.selection.check_keys(lambda: self._list_samples(chosen))

    def _list_samples(self, chosen: Collection[DatasetOutline]) -> Iterator[Sample]:
        names = {dataset.name for dataset in chosen}
        return (sample for (dataset, _), sample in self._samples.items() if dataset in names)

    def _explain_absence(self, sample: str, attempt: int, case: Case | None) -> str:
        if case is None:
            repeats = self.stored.outline.repeats
            many = f" (its attempts are 1 to {repeats})" if attempt > repeats else ""
            return f"'{sample}' has no attempt {attempt} in run {self.id}{many}"
        if case.is_erased:
            return f"the text of '{sample}' was erased, because a customer revoked it"
        return f"'{sample}' has no reply: {case.exchange.error}"


def _is_beyond(stored: StoredAttempt, limits: Collection[Threshold]) -> bool:
    found = ((stored.scores.get(limit.metric), limit) for limit in limits)
    return any(score is not None and score.value is not None and not limit.holds(score.value) for score, limit in found)


def _has_limit(dataset: DatasetOutline, wanted: CaseFilter) -> bool:
    return any(not wanted.beyond or limit.metric == wanted.metric for limit in dataset.thresholds)


def _unknown(kind: str, name: str, known: Collection[str], run: str) -> Problem:
    return Problem(f"run {run} has no {kind} '{name}'", near_miss(name, known), field=f"--{kind}")
