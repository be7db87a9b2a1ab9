"""Items of the pytest plugin."""

import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import pytest

from evalspec.base.foreign_text import commandless, inert, without_control_codes
from evalspec.pytest_plugin.runs import RUNS, DatasetRun

if TYPE_CHECKING:
    from evalspec.inputs.manifest.loader import LoadedManifest
    from evalspec.model import Run, Sample, SampleResult, Score, Threshold
    from evalspec.runs.planning.draft import PlannedDataset
    from evalspec.runs.planning.options import RunOptions

_CAN_BE_A_MARK = re.compile(r"[^\W_][\w.+-]*")


class ManifestFile(pytest.File):
    """A manifest. Collecting it validates it, as `evalspec validate` does."""

    loaded: "LoadedManifest"

    @property
    def store(self) -> Path:
        """Folder of the runs: `.evalspec` in the folder in which pytest was started."""
        return self.config.invocation_params.dir / ".evalspec"

    def options(self, dataset: str | None = None, ids: frozenset[str] | None = None) -> "RunOptions":
        """Return the options of a run of all datasets, of one dataset, or of some of its samples."""
        from evalspec.runs.planning.options import RunOptions

        return RunOptions(
            datasets=() if dataset is None else (dataset,),
            url=self.config.getoption("--evalspec-url"),
            sample_size=self.config.getoption("--evalspec-sample-size") if ids is None else None,
            slice=self.config.getoption("--evalspec-slice"),
            no_judge=leaves_judge_out(self.config),
            only=None if dataset is None or ids is None else {dataset: ids},
        )

    def collect(self) -> Iterator[pytest.Collector | pytest.Item]:
        """Yield a collector for each dataset, after an item for the gate's baseline if there is one."""
        from evalspec.base.errors import InvalidInput
        from evalspec.inputs.datasets.selection import Selection, select
        from evalspec.inputs.manifest.loader import load_manifest
        from evalspec.runs.planning.checks import check_datasets
        from evalspec.runs.planning.inputs import existing_baseline
        from evalspec.runs.planning.selecting import check_parts, take_part

        try:
            self.loaded = load_manifest(self.path)
            datasets = check_datasets(self.loaded, self.options())
            parts = check_parts(self.options(), datasets)
        except InvalidInput as error:
            raise self.CollectError("\n".join(problem.render() for problem in error.problems)) from None
        if existing_baseline(self.loaded) or self.loaded.manifest.spec.evaluation.ci_gate.server_baseline:
            yield BaselineItem.from_parent(self, name="baseline")
        size = self.config.getoption("--evalspec-sample-size")
        for dataset, part in zip(datasets, parts, strict=True):
            samples = select(take_part(part, dataset.samples), Selection(size=size))
            yield DatasetCollector.from_parent(self, name=dataset.name, dataset=dataset, samples=samples)


class BaselineItem(pytest.Item):
    """The gate's baseline. The manifest must have its datasets, which the run of one dataset cannot check."""

    parent: ManifestFile

    def setup(self) -> None:
        """Fail (an error for pytest) if the baseline has a dataset that the manifest lacks."""
        from evalspec.api.server_baselines import fetch_baseline
        from evalspec.runs.planning.inputs import existing_baseline
        from evalspec.runs.store.run_store import RunStore
        from evalspec.verdict.comparison.run_files import read_baseline

        self.parent.loaded = loaded = fetch_baseline(self.parent.loaded, RunStore(self.parent.store))
        path = existing_baseline(loaded)
        if path is not None:
            known = {dataset.name for dataset in loaded.manifest.spec.evaluation.datasets}
            gone = [dataset.name for dataset in read_baseline(path).run.datasets if dataset.name not in known]
            if gone:
                _fail(
                    "INCOMPLETE", *(f"  the baseline has the dataset '{name}', the manifest does not" for name in gone)
                )

    def runtest(self) -> None:
        """Do nothing: `setup` has checked the baseline."""

    def reportinfo(self) -> tuple[Path, int | None, str]:
        """Return the path of the manifest and the name of the item."""
        return self.path, 0, self.name


class DatasetCollector(pytest.Collector):
    """A dataset of a manifest."""

    def __init__(self, *, dataset: "PlannedDataset", samples: "Iterable[Sample]", **more: Any) -> None:
        super().__init__(**more)
        self.dataset, self.samples = dataset, list(samples)

    def collect(self) -> Iterator[pytest.Item]:
        """Yield an item for each threshold, one for the verdict, and one for each sample with its tags as marks."""
        names: dict[str, int] = {}
        for threshold in self.dataset.thresholds:
            name = _count(names, _name(_describe(threshold)))
            item = ThresholdItem.from_parent(self, name=name, dataset=self.dataset, threshold=threshold)
            if threshold.slice:
                _mark(item, threshold.slice)
            yield item
        yield VerdictItem.from_parent(self, name="verdict", dataset=self.dataset)
        for sample in self.samples:
            name = _count(names, _name(f"sample:{sample.id}"))
            asked = SampleItem.from_parent(self, name=name, dataset=self.dataset, sample=sample)
            for tag in sample.tags:
                _mark(asked, tag)
            yield asked


class DatasetItem(pytest.Item):
    """Base class of the items: their dataset, and its run."""

    def __init__(self, *, dataset: "PlannedDataset", **more: Any) -> None:
        super().__init__(**more)
        self.dataset = dataset
        self.manifest = next(node for node in self.listchain() if isinstance(node, ManifestFile))
        self._found: DatasetRun | None = None

    def setup(self) -> None:
        """Find or make the run. Fail if the item is undecided (an error for pytest), and skip it if not measured."""
        found = self.config.stash[RUNS].find(self)
        if isinstance(found, str):
            _fail(*found.splitlines())
        self._found = found
        self.check_decided()

    @property
    def found(self) -> DatasetRun:
        """The run of the dataset. Only available after `setup`."""
        if self._found is None:
            raise RuntimeError(f"{self.nodeid} was not set up")
        return self._found

    def choose_samples(self) -> frozenset[str] | None:
        """Return the ids of the samples that the selected items of the dataset need. None: all, for a threshold."""
        items = [one for one in self.session.items if isinstance(one, DatasetItem) and one.parent is self.parent]
        samples = [one.sample.id for one in items if isinstance(one, SampleItem)]
        return frozenset(samples) if len(samples) == len(items) else None

    def explain_texts(self, sample: "Sample") -> "Iterator[str]":
        """Show question, expected answer and the answers of a sample, as far as they are stored."""
        from evalspec.api.explaining import explain_texts

        answers = self.found.answers.read(self.dataset.name, sample)
        return explain_texts(sample.question, " or ".join(sample.references), answers)

    def check_decided(self) -> None:
        """Fail if the run could not decide this item, and skip the item if it was not measured."""

    def reportinfo(self) -> tuple[Path, int | None, str]:
        """Return the path of the manifest and the name of the item."""
        return self.path, 0, f"{inert(self.dataset.name)}: {self.name}"


class ThresholdItem(DatasetItem):
    """One threshold of a dataset."""

    def __init__(self, *, threshold: "Threshold", **more: Any) -> None:
        super().__init__(**more)
        self.threshold = threshold

    def _find_outcome(self) -> "Threshold":
        limit = self.threshold
        return next(outcome for outcome in self.found.result.thresholds if _key(outcome) == _key(limit))

    def check_decided(self) -> None:
        """See the base class."""
        outcome = self._find_outcome()
        _check_status(outcome, outcome.status)
        if self.found.run.verdict == "NOT_GATED":
            pytest.skip(f"the gate is off. {outcome.reason or 'The threshold is met'}")

    def runtest(self) -> None:
        """Fail if the limit is broken, and list the worst samples."""
        from evalspec.api.explaining import explain_threshold

        outcome = self._find_outcome()
        if outcome.value is not None:
            self.user_properties.append(("value", outcome.value))
        if outcome.status == "FAIL":
            known = {sample.id: sample for sample in self.dataset.samples}
            worst = explain_threshold(self.found.result, outcome, lambda name: self.explain_texts(known[name]))
            head = f"{self.dataset.name}: {_describe(outcome)}: {outcome.reason}"
            _fail(head, *(f"  {line}" for line in worst))


class VerdictItem(DatasetItem):
    """The verdict on a dataset. It includes checks beyond thresholds, such as the comparison with the baseline."""

    def check_decided(self) -> None:
        """See the base class."""
        _check_status(self.found.run, self.found.run.verdict)

    def runtest(self) -> None:
        """Fail if the gate fails."""
        run = self.found.run
        if run.verdict == "FAIL":
            _fail(f"{self.dataset.name}: FAIL", *(f"  {reason}" for reason in run.reasons))


class SampleItem(DatasetItem):
    """One sample. It can only fail if each sample has a limit: `ciGate.minPassRate`."""

    def __init__(self, *, sample: "Sample", **more: Any) -> None:
        super().__init__(**more)
        self.sample = sample

    @property
    def result(self) -> "SampleResult":
        """The result of the sample."""
        return self.found.samples[self.sample.id]

    @property
    def least(self) -> float | None:
        """The lowest allowed pass rate; None without a limit."""
        return self.manifest.loaded.manifest.spec.evaluation.ci_gate.min_pass_rate

    def check_decided(self) -> None:
        """Fail without a usable reply, or without a pass rate that a limit needs. Skip if the gate tolerates that."""
        if self.result.error is not None:
            problem = f"no usable reply: {self.result.error}"
        elif self.least is not None and self.result.pass_rate is None:
            problem = "the pass rate is unknown, because not every score with a threshold could be computed"
        else:
            return
        if self.found.run.verdict == "PASS":
            pytest.skip(f"{problem}. The gate passes without this sample")
        _fail(problem)

    def runtest(self) -> None:
        """Fail if the pass rate of the sample is below the limit, and show question, answer and limit."""
        from evalspec.api.explaining import explain_pass_rate

        record_scores(self, self.result.scores)
        rate, least = self.result.pass_rate, self.least
        if least is not None and rate is not None and rate < least:
            _fail(*self.explain_texts(self.sample), *explain_pass_rate(self.result, least))


def _fail(*lines: str) -> NoReturn:
    """Fail without a traceback through this plugin. In `setup` pytest reports an error, in `runtest` a failure."""
    pytest.fail(commandless(without_control_codes("\n".join(lines))), pytrace=False)


def _check_status(outcome: "Threshold | Run", status: str) -> None:
    reasons = [outcome.reason or ""] if hasattr(outcome, "reason") else outcome.reasons
    if status == "INCOMPLETE":
        _fail("INCOMPLETE", *(f"  {reason}" for reason in reasons))
    if status == "NOT_GATED":
        pytest.skip("; ".join(filter(None, reasons)) or "not measured in this run")


def _key(limit: "Threshold") -> tuple[Any, ...]:
    return limit.metric, limit.stat, limit.slice, limit.min, limit.max, limit.confidence


def _describe(limit: "Threshold") -> str:
    """Return a threshold as `string_match[kind=capital] >= 0.9`."""
    sides = [f">= {limit.min:g}"] if limit.min is not None else []
    sides += [f"<= {limit.max:g}"] if limit.max is not None else []
    stat = f" {limit.stat}" if limit.stat else ""
    part = f"[{limit.slice}]" if limit.slice else ""
    confidence = f" at {limit.confidence:g}" if limit.confidence is not None else ""
    return f"{limit.metric}{stat}{part} {' and '.join(sides)}{confidence}"


def _name(text: str) -> str:
    """Return a text as the name of an item. pytest splits the ids of items at `[` and `::`, for `--lf` for example."""
    return commandless(inert(text)).replace("[", "(").replace("]", ")").replace("::", ":")


def _count(names: dict[str, int], name: str) -> str:
    names[name] = names.get(name, 0) + 1
    return name if names[name] == 1 else f"{name} ({names[name]})"


def _mark(item: pytest.Item, name: str) -> None:
    """Add a mark for `-m NAME`, and register it, as `--strict-markers` requires.

    A tag with the name of a mark that pytest or a plugin obeys (`skip`, `xfail`, `timeout`) is no mark.
    """
    if not _CAN_BE_A_MARK.fullmatch(name):
        return
    line, registered = f"{name}: tag or slice of a dataset", item.config.getini("markers")
    if line not in registered:
        if any(re.split(r"[:(]", known)[0].strip() == name for known in registered):
            return
        item.config.addinivalue_line("markers", line)
    item.add_marker(name)


def record_scores(item: pytest.Item, scores: "Mapping[str, Score]") -> None:
    """Add scores to the properties of a test, which a JUnit file lists."""
    item.user_properties.extend((metric, score.value) for metric, score in scores.items() if score.value is not None)


def leaves_judge_out(config: pytest.Config) -> bool:
    """Return whether judged metrics are to be left out."""
    return bool(config.getoption("--evalspec-no-judge") or config.getini("evalspec_no_judge"))
