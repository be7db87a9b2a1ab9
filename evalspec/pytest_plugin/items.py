"""Items of the pytest plugin, and the runs that decide them."""

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import pytest

from evalspec.foreign_text import commandless, inert, steerless

if TYPE_CHECKING:
    from evalspec.manifest.loader import LoadedManifest
    from evalspec.model import DatasetResult, Run, Sample, SampleResult, Score, Threshold
    from evalspec.planning.draft import PlannedDataset
    from evalspec.planning.options import RunOptions

RUNS = pytest.StashKey["SessionRuns"]()
_CAN_BE_A_MARK = re.compile(r"[^\W_][\w.+-]*")


@dataclass
class SessionRuns:
    """The runs of this session, one for each dataset of each manifest."""

    config: pytest.Config
    manifests: list[Path] = field(default_factory=list)
    known: dict[tuple[Path, str], "Run | str"] = field(default_factory=dict)
    of_samples: set[tuple[Path, str]] = field(default_factory=set)
    of_workers: dict[str, None] = field(default_factory=dict)

    def describe(self) -> Iterator[str]:
        """Yield a line on each run: its verdict, if the whole dataset was evaluated, and its id."""
        yield from self.of_workers
        for (path, name), run in self.known.items():
            if isinstance(run, str):
                continue
            verdict = run.verdict.replace("_", " ")
            said = f"{run.datasets[0].selected} selected samples" if (path, name) in self.of_samples else verdict
            yield f"evalspec: {inert(name)}: {said}, run {run.id}"

    def find(self, item: "_Item") -> "Run | str":
        """Return the run of an item's dataset, or why there is none. Evaluate each dataset once."""
        key = item.manifest.path, item.dataset.name
        if key not in self.known:
            self.known[key] = "the evaluation of the dataset was interrupted"
            self.known[key] = self._share(item)
        return self.known[key]

    def _share(self, item: "_Item") -> "Run | str":
        """Return the run. Under xdist, the first worker evaluates the dataset, and the others load its run."""
        worker = getattr(self.config, "workerinput", None)
        if worker is None:
            return self._make(item)
        from filelock import FileLock

        from evalspec.api.public import load_run

        folder = item.manifest.store.parent / ".evalspec" / "pytest"
        folder.mkdir(parents=True, exist_ok=True)
        note = folder / f"{worker['testrunuid']}-{_digest(item.manifest.path, item.dataset.name)}"
        with FileLock(note.with_suffix(".lock")):
            if note.exists():
                found = json.loads(note.read_text(encoding="utf-8"))
                return found["error"] if "error" in found else load_run(found["run"], store=item.manifest.store)
            run = self._make(item)
            note.write_text(json.dumps({"error": run} if isinstance(run, str) else {"run": run.id}), encoding="utf-8")
            return run

    def _make(self, item: "_Item") -> "Run | str":
        from evalspec.api.evaluation import ProgressCallback, complete, prepare
        from evalspec.api.loops import run_coroutine
        from evalspec.api.public import redacting
        from evalspec.errors import EvalspecError
        from evalspec.store.run_store import RunStore

        manifest, dataset = item.manifest, item.dataset
        items = [
            one
            for one in item.session.items
            if isinstance(one, _Item) and one.manifest.path == manifest.path and one.dataset.name == dataset.name
        ]
        chosen = _chosen(items)
        if chosen is not None:
            self.of_samples.add((manifest.path, dataset.name))
        options = manifest.options(dataset.name, chosen)
        try:
            with redacting(manifest.loaded):
                evaluation = prepare(manifest.loaded, options, RunStore(manifest.store))
                session = evaluation.begin()
                return run_coroutine(lambda: complete(session, ProgressCallback(evaluation.plan.total, None)))
        except EvalspecError as error:
            return str(error)


def _chosen(items: Iterable["_Item"]) -> frozenset[str] | None:
    """Return the ids of the samples that the selected items need. None for all, which thresholds need."""
    if not all(isinstance(item, SampleItem) for item in items):
        return None
    return frozenset(item.sample.id for item in items if isinstance(item, SampleItem))


def _digest(path: Path, dataset: str) -> str:
    from hashlib import sha256

    return sha256(f"{path.resolve()}\0{dataset}".encode(errors="surrogateescape")).hexdigest()[:16]


class ManifestFile(pytest.File):
    """A manifest. Collecting it validates it, as `evalspec validate` does."""

    loaded: "LoadedManifest"

    @property
    def store(self) -> Path:
        """Folder of the runs: `.evalspec` in the folder in which pytest was started."""
        return self.config.invocation_params.dir / ".evalspec"

    def options(self, dataset: str | None = None, ids: frozenset[str] | None = None) -> "RunOptions":
        """Return the options of a run of all datasets, of one dataset, or of some of its samples."""
        from evalspec.planning.options import RunOptions

        return RunOptions(
            datasets=() if dataset is None else (dataset,),
            url=self.config.getoption("--evalspec-url"),
            sample_size=self.config.getoption("--evalspec-sample-size") if ids is None else None,
            no_judge=leaves_judge_out(self.config),
            only=None if dataset is None or ids is None else {dataset: ids},
        )

    def collect(self) -> Iterator[pytest.Collector | pytest.Item]:
        """Yield a collector for each dataset, after an item for the gate's baseline if there is one."""
        from evalspec.datasets.selection import select_samples
        from evalspec.errors import InvalidInput
        from evalspec.manifest.loader import load_manifest
        from evalspec.planning.checks import check_datasets
        from evalspec.planning.inputs import existing_baseline

        try:
            self.loaded = load_manifest(self.path)
            datasets = check_datasets(self.loaded, self.options())
        except InvalidInput as error:
            raise self.CollectError("\n".join(problem.render() for problem in error.problems)) from None
        if existing_baseline(self.loaded):
            yield BaselineItem.from_parent(self, name="baseline")
        size = self.config.getoption("--evalspec-sample-size")
        for dataset in datasets:
            samples = select_samples(dataset.samples, tags=(), exclude_tags=(), size=size, seed=0)
            yield DatasetCollector.from_parent(self, name=dataset.name, dataset=dataset, samples=samples)


class BaselineItem(pytest.Item):
    """The gate's baseline. The manifest must have its datasets, which the run of one dataset cannot check."""

    parent: ManifestFile

    def setup(self) -> None:
        """Fail (an error for pytest) if the baseline has a dataset that the manifest lacks."""
        from evalspec.comparison.run_files import read_baseline
        from evalspec.planning.inputs import existing_baseline

        path, loaded = existing_baseline(self.parent.loaded), self.parent.loaded
        if path is not None:
            known = {dataset.name for dataset in loaded.manifest.spec.evaluation.datasets}
            gone = [dataset.name for dataset in read_baseline(path).datasets if dataset.name not in known]
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


class _Item(pytest.Item):
    """Base class of the items: their dataset, and its run."""

    def __init__(self, *, dataset: "PlannedDataset", **more: Any) -> None:
        super().__init__(**more)
        self.dataset = dataset
        self.manifest = next(node for node in self.listchain() if isinstance(node, ManifestFile))
        self._run: Run | None = None

    def setup(self) -> None:
        """Find or make the run. Fail if the item is undecided (an error for pytest), and skip it if not measured."""
        found = self.config.stash[RUNS].find(self)
        if isinstance(found, str):
            _fail(*found.splitlines())
        self._run = found
        self.check_decided(self.result)

    @property
    def run(self) -> "Run":
        """The run of the dataset. Only available after `setup`."""
        if self._run is None:
            raise RuntimeError(f"{self.nodeid} was not set up")
        return self._run

    @property
    def result(self) -> "DatasetResult":
        """The result of the dataset."""
        return self.run.datasets[0]

    def explain_texts(self, sample: "Sample") -> "Iterator[str]":
        """Show question, expected answer and the answers of a sample, as far as they are stored."""
        from evalspec.api.explaining import explain_texts, read_answers
        from evalspec.store.run_store import RunStore
        from evalspec.store.stored_run import open_run

        stored = open_run(RunStore(self.manifest.store).find(self.run.id))
        return explain_texts(sample.question, " or ".join(sample.references), read_answers(stored, sample))

    def check_decided(self, result: "DatasetResult") -> None:
        """Fail if the run could not decide this item, and skip the item if it was not measured."""

    def reportinfo(self) -> tuple[Path, int | None, str]:
        """Return the path of the manifest and the name of the item."""
        return self.path, 0, f"{inert(self.dataset.name)}: {self.name}"


class ThresholdItem(_Item):
    """One threshold of a dataset."""

    def __init__(self, *, threshold: "Threshold", **more: Any) -> None:
        super().__init__(**more)
        self.threshold = threshold

    def _find_outcome(self) -> "Threshold":
        limit = self.threshold
        return next(outcome for outcome in self.result.thresholds if _key(outcome) == _key(limit))

    def check_decided(self, result: "DatasetResult") -> None:  # noqa: ARG002 - of the base class
        """See the base class."""
        outcome = self._find_outcome()
        _check_status(outcome, outcome.status)
        if self.run.verdict == "NOT_GATED":
            pytest.skip(f"the gate is off. {outcome.reason or 'The threshold is met'}")

    def runtest(self) -> None:
        """Fail if the limit is broken, and list the worst samples."""
        from evalspec.api.explaining import explain_threshold

        outcome = self._find_outcome()
        if outcome.value is not None:
            self.user_properties.append(("value", outcome.value))
        if outcome.status == "FAIL":
            lines = [f"{self.dataset.name}: {_describe(outcome)}: {outcome.reason}"]
            known = {sample.id: sample for sample in self.dataset.samples}
            worst = explain_threshold(self.result, outcome, lambda sample_id: self.explain_texts(known[sample_id]))
            _fail(*[*lines, *(f"  {line}" for line in worst)])


class VerdictItem(_Item):
    """The verdict on a dataset. It includes checks beyond thresholds, such as the comparison with the baseline."""

    def check_decided(self, result: "DatasetResult") -> None:  # noqa: ARG002 - of the base class
        """See the base class."""
        _check_status(self.run, self.run.verdict)

    def runtest(self) -> None:
        """Fail if the gate fails."""
        if self.run.verdict == "FAIL":
            _fail(*[f"{self.dataset.name}: FAIL", *(f"  {reason}" for reason in self.run.reasons)])


class SampleItem(_Item):
    """One sample. It can only fail if each sample has a limit: `ciGate.minPassRate`."""

    def __init__(self, *, sample: "Sample", **more: Any) -> None:
        super().__init__(**more)
        self.sample = sample

    @property
    def found(self) -> "SampleResult":
        """The result of the sample."""
        return next(one for one in self.result.samples if one.id == self.sample.id)

    @property
    def least(self) -> float | None:
        """The lowest allowed pass rate; None without a limit."""
        return self.manifest.loaded.manifest.spec.evaluation.ci_gate.min_pass_rate

    def check_decided(self, result: "DatasetResult") -> None:  # noqa: ARG002 - of the base class
        """Fail without a usable reply, or without a pass rate that a limit needs. Skip if the gate tolerates that."""
        if self.found.error is not None:
            problem = f"no usable reply: {self.found.error}"
        elif self.least is not None and self.found.pass_rate is None:
            problem = "the pass rate is unknown, because not every score with a threshold could be computed"
        else:
            return
        if self.run.verdict == "PASS":
            pytest.skip(f"{problem}. The gate passes without this sample")
        _fail(problem)

    def runtest(self) -> None:
        """Fail if the pass rate of the sample is below the limit, and show question, answer and limit."""
        from evalspec.api.explaining import explain_pass_rate

        record_scores(self, self.found.scores)
        rate, least = self.found.pass_rate, self.least
        if least is not None and rate is not None and rate < least:
            _fail(*self.explain_texts(self.sample), *explain_pass_rate(self.found, least))


def _fail(*lines: str) -> NoReturn:
    """Fail without a traceback through this plugin. In `setup` pytest reports an error, in `runtest` a failure."""
    pytest.fail(commandless(steerless("\n".join(lines))), pytrace=False)


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
