"""What people can judge in a run, whether its samples are in memory or in an index."""

from abc import ABC, abstractmethod
from collections.abc import Collection, Hashable, Iterable, Iterator, Mapping, Sequence

from msgspec import Struct
from msgspec.structs import replace

from evalspec.base.errors import InvalidInput, Problem
from evalspec.base.registry import near_miss
from evalspec.curation.labels.binding import Case, LabelMatch, is_applicable, match_label
from evalspec.curation.labels.files import LabelFiles
from evalspec.inputs.datasets.selection import Selection, select
from evalspec.model import Exchange, Sample, Score, ScoreStatus, Threshold
from evalspec.model.labels import Label, Target
from evalspec.runs.store.stored_run import StoredRun
from evalspec.verdict.outline import DatasetOutline, MetricOutline
from evalspec.verdict.stats.clusters import find_cluster
from evalspec.verdict.summary import in_slice, reply_limits

NO_TEXTS = "no texts"

_ERASED = "erased"

Scores = Mapping[str, Score]


class CaseFilter(Struct, frozen=True):
    """Which replies or scores to label.

    `metric`: label the scores of this metric; None: the replies. `failed`: only replies with a score beyond one of
    their thresholds. `beyond`: only scores beyond a threshold of the metric. `is_rated`: people give their own scores,
    so replies that the judge could not score are included.
    """

    metric: str | None = None
    datasets: Sequence[str] = ()
    selection: Selection = Selection()
    failed: bool = False
    beyond: bool = False
    is_rated: bool = False

    def includes(self, scores: Scores, limits: Collection[Threshold]) -> bool:
        """Return whether to label an answered attempt. `limits`: the thresholds that it has to miss, if any has to."""
        score = scores.get(self.metric or "")
        if self.is_rated:
            return is_applicable(score)
        if self.metric is not None and (score is None or score.status is not ScoreStatus.SCORED):
            return False
        return not (self.failed or self.beyond) or _is_beyond(scores, limits)


class JudgedRun(ABC):
    """A stored run that people label, or that labels are compared with."""

    def __init__(self, stored: StoredRun, files: LabelFiles) -> None:
        """`files`: the labels of its store."""
        self.stored = stored
        self.files = files
        self.outlines = {one.name: replace(one, metrics=one.of_replies) for one in stored.outline.datasets}
        self._identities: Mapping[str, Mapping[str, Mapping[str, str]]] = {
            one.name: one.metric_identities for one in stored.fingerprint.datasets
        }

    @abstractmethod
    def find_sample(self, dataset: str, id: str) -> Sample | None:
        """Return a sample, None if the run has none with this id."""

    @abstractmethod
    def list_ids(self, dataset: str | None) -> list[str]:
        """Return ids to suggest for a misspelt one: of all samples, or of those of a dataset."""

    @abstractmethod
    def is_erased(self, dataset: str, sample: str) -> bool:
        """Return whether the texts of a sample were erased."""

    @abstractmethod
    def read_attempt(self, dataset: str, sample: Sample, attempt: int) -> tuple[Exchange, Scores] | None:
        """Return the reply and the scores of an attempt, None if the run has none with this number.

        The exchange has no reply if its texts were erased.
        """

    @abstractmethod
    def list_answered(self, dataset: str) -> Iterator[tuple[Sample, Sequence[tuple[int, Scores]]]]:
        """Yield each sample of a dataset, perhaps without its texts, with number and scores of its answered attempts.

        A sample whose texts were erased has none, because nobody can judge it.
        """

    @property
    def id(self) -> str:
        """The id of the run."""
        return self.stored.id

    def read_labels(self) -> Sequence[Label]:
        """Return all labels of the run as they are now. Replaced and withdrawn ones are included.

        Raises:
            InvalidInput: A file of labels is damaged.
        """
        return self.files.read(self.id)

    def require_texts(self) -> None:
        """Check that there is something to read.

        Raises:
            InvalidInput: The run was made with --no-content.
        """
        if not self.stored.outline.has_texts:
            message = f"run {self.id} stores no texts (--no-content), so nobody can read what to label"
            raise InvalidInput(message, "label a run that was made without --no-content")

    def list_targets(self, wanted: CaseFilter) -> list[Target]:
        """Return what can be labelled, in the order of the run.

        Raises:
            InvalidInput: There is no such dataset, metric or key, or no threshold to be beyond.
        """
        self.check(wanted)
        return [target for dataset in wanted.datasets or self.outlines for target in self._list_in(dataset, wanted)]

    def find_case(
        self, dataset: str | None, sample: str, attempt: int, metric: str | None, *, is_rated: bool = False
    ) -> Case:
        """Return what to label, with all texts. `dataset`: None if only one has such a sample.

        `is_rated`: a person gives a score of their own, so that the judge need not have one.

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
        if metric is not None and not (case.is_applicable if is_rated else case.has_value):
            said = case.score.reason if case.score and case.score.reason else "the run is not finished"
            message = f"'{sample}' has no score of {metric}: {said}"
            raise InvalidInput(Problem(message, "label the reply, or another metric", field="--metric"))
        return case

    def find_dataset(self, dataset: str | None, sample: str) -> str:
        """Return the dataset of a sample.

        Raises:
            InvalidInput: There is none, or several have a sample of this id.
        """
        if dataset is not None and dataset not in self.outlines:
            raise InvalidInput(explain_unknown("dataset", dataset, self.outlines, self.id))
        found = [name for name in self.outlines if dataset in (None, name) and self.has_sample(name, sample)]
        if not found:
            raise InvalidInput(explain_unknown("sample", sample, self.list_ids(dataset), self.id))
        if len(found) > 1:
            message = f"'{sample}' is in several datasets: {', '.join(found)}"
            raise InvalidInput(Problem(message, "name one", field="--dataset"))
        return found[0]

    def find_metric(self, dataset: str, metric: str) -> MetricOutline:
        """Return a metric of a dataset.

        Raises:
            InvalidInput: The dataset has no such metric.
        """
        metrics = self._metrics_of(dataset)
        if metric not in metrics:
            raise InvalidInput(explain_unknown("metric", metric, metrics, self.id))
        return metrics[metric]

    def has_metric(self, dataset: str, metric: str) -> bool:
        """Return whether a dataset has a metric."""
        return metric in self._metrics_of(dataset)

    def find_identity(self, dataset: str, metric: str) -> Mapping[str, str]:
        """Return the parts of a metric's identity; empty if it has none."""
        return self._identities.get(dataset, {}).get(metric, {})

    def find_judge(self, dataset: str, metric: str) -> str | None:
        """Return the judge of a metric as its identity names it; None if it has none."""
        return self.find_identity(dataset, metric).get("judge")

    def find_limits(self, dataset: str, sample: Sample, metric: str | None = None) -> list[Threshold]:
        """Return the thresholds that apply to single replies of a sample. `metric`: only those of this one."""
        outline = self.outlines[dataset]
        limits = reply_limits(outline.thresholds, {one.name: one.statistic for one in outline.metrics})
        return [one for one in limits if metric in (None, one.metric) and in_slice(sample, one.slice)]

    def find_unit(self, dataset: str, sample: str) -> Hashable:
        """Return the cluster of a sample of the run. Samples of one cluster are not independent."""
        found = self.find_sample(dataset, sample)
        return dataset, sample if found is None else find_cluster(found, self.outlines[dataset].cluster)

    def has_sample(self, dataset: str, sample: str) -> bool:
        """Return whether the run has a sample."""
        return self.find_sample(dataset, sample) is not None

    def read_case(self, target: Target) -> Case | None:
        """Return a reply or a score with all texts; None if the run has no such attempt, or no such metric."""
        dataset, sample, attempt, metric = target
        metrics = self._metrics_of(dataset) if dataset in self.outlines else {}
        known = self.find_sample(dataset, sample) if dataset in self.outlines else None
        if known is None or (metric is not None and metric not in metrics):
            return None
        read = self.read_attempt(dataset, known, attempt)
        if read is None:
            return None
        exchange, scores = read
        case, identity = metrics.get(metric or ""), self.find_identity(dataset, metric or "")
        if self.is_erased(dataset, sample):
            erased = Exchange(known, error=_ERASED)
            return Case(self.id, dataset, attempt, erased, scores, case, identity, is_erased=True)
        return Case(self.id, dataset, attempt, exchange, scores, case, identity)

    def list_matches(self, target: Target, labels: Sequence[Label]) -> Iterable[tuple[Label, LabelMatch]]:
        """Return what each label on one target says about the run."""
        case = self.read_case(target)
        return [(one, match_label(one, case)) for one in labels]

    def _metrics_of(self, dataset: str) -> dict[str, MetricOutline]:
        return {one.name: one for one in self.outlines[dataset].metrics}

    def _list_in(self, dataset: str, wanted: CaseFilter) -> Iterator[Target]:
        samples: list[Sample] = []
        numbers: dict[str, list[int]] = {}
        for sample, attempts in self.list_answered(dataset):
            limits = self.find_limits(dataset, sample, wanted.metric if wanted.beyond else None)
            own = [number for number, scores in attempts if wanted.includes(scores, limits)]
            if own:
                samples.append(sample)
                numbers[sample.id] = own
        for sample in select(samples, wanted.selection):
            yield from ((dataset, sample.id, number, wanted.metric) for number in numbers[sample.id])

    def check(self, wanted: CaseFilter) -> None:
        """Check that the run has what a filter names.

        Raises:
            InvalidInput: There is no such dataset, metric or key, or no threshold to be beyond.
        """
        for dataset in wanted.datasets:
            if dataset not in self.outlines:
                raise InvalidInput(explain_unknown("dataset", dataset, self.outlines, self.id))
        chosen = [self.outlines[name] for name in wanted.datasets or self.outlines]
        metrics = {metric.name for dataset in chosen for metric in dataset.metrics}
        if wanted.metric is not None and wanted.metric not in metrics:
            raise InvalidInput(explain_unknown("metric", wanted.metric, metrics, self.id))
        if wanted.beyond and wanted.metric is None:
            raise InvalidInput(Problem("needs a metric", "add --metric METRIC", field="--below-threshold"))
        if (wanted.failed or wanted.beyond) and not any(_has_limit(one, wanted) for one in chosen):
            what = f"no threshold on {wanted.metric}" if wanted.beyond else "no thresholds"
            option = "--below-threshold" if wanted.beyond else "--failed"
            raise InvalidInput(Problem(f"run {self.id} has {what}", f"leave out {option}", field=option))
        wanted.selection.check_keys(lambda: (one for name in chosen for one, _ in self.list_answered(name.name)))

    def _explain_absence(self, sample: str, attempt: int, case: Case | None) -> str:
        if case is None:
            repeats = self.stored.outline.repeats
            many = f" (its attempts are 1 to {repeats})" if attempt > repeats else ""
            return f"'{sample}' has no attempt {attempt} in run {self.id}{many}"
        if case.is_erased:
            return f"the text of '{sample}' was erased, because a customer revoked it"
        return f"'{sample}' has no reply: {case.exchange.error}"


def explain_unknown(kind: str, name: str, known: Collection[str], run: str) -> Problem:
    """Return the problem of a name that a run does not have. `known`: those that it has."""
    return Problem(f"run {run} has no {kind} '{name}'", near_miss(name, known), field=f"--{kind}")


def _is_beyond(scores: Scores, limits: Collection[Threshold]) -> bool:
    found = ((scores.get(limit.metric), limit) for limit in limits)
    return any(score is not None and score.value is not None and not limit.holds(score.value) for score, limit in found)


def _has_limit(dataset: DatasetOutline, wanted: CaseFilter) -> bool:
    return any(not wanted.beyond or limit.metric == wanted.metric for limit in dataset.thresholds)
