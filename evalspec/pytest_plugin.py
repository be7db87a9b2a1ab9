"""The pytest plugin: `pytest agent.yaml` collects a test for each threshold and each sample of each dataset.

A plain `pytest` collects no manifest. Each dataset is evaluated once, when its first item is set up, with the samples
that are selected (`-k`, `-m TAG`, `--lf`). xdist workers share the run.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from evalspec.manifest.loader import LoadedManifest
    from evalspec.model import DatasetResult, Run, Sample, Score, Threshold
    from evalspec.planning.draft import PlannedDataset
    from evalspec.planning.options import RunOptions

_SUFFIXES = (".yaml", ".yml")
_MARK = b"agentspec.io/"
_RUNS = pytest.StashKey["_Runs"]()


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the command-line options and ini settings."""
    group = parser.getgroup("evalspec", "evalspec: manifests as tests")
    group.addoption("--evalspec", action="store_true", help="Also collect the manifests in `evalspec_manifests`.")
    group.addoption("--evalspec-url", metavar="URL", help="Base URL of the agent. Overrides spec.api.url.")
    group.addoption("--evalspec-sample-size", metavar="N", type=int, help="Maximum number of samples per dataset.")
    group.addoption("--evalspec-no-judge", action="store_true", help="Skip judged metrics.")
    parser.addini("evalspec_manifests", "Manifests that --evalspec collects.", type="paths", default=None)
    parser.addini("evalspec_no_judge", "Skip judged metrics.", type="bool", default=False)


def pytest_configure(config: pytest.Config) -> None:
    """With `--evalspec`, add the manifests of `evalspec_manifests` to the paths to collect."""
    runs = config.stash[_RUNS] = _Runs(config)
    if config.getoption("--evalspec"):
        runs.manifests.extend(config.getini("evalspec_manifests") or [config.rootpath / "agent.yaml"])
        config.args.extend(str(path) for path in runs.manifests)


def pytest_collect_file(file_path: Path, parent: pytest.Collector) -> "ManifestFile | None":
    """Collect a manifest, if it is given on the command line or in `evalspec_manifests`.

    Both are checked, because pytest drops an argument that is inside the folder of another argument.
    """
    if file_path.suffix not in _SUFFIXES:
        return None
    if file_path not in parent.config.stash[_RUNS].manifests and not parent.session.isinitpath(file_path):
        return None
    return ManifestFile.from_parent(parent, path=file_path) if _MARK in file_path.read_bytes() else None


def pytest_terminal_summary(terminalreporter: Any, config: pytest.Config) -> None:
    """Print the ids of the runs, for `evalspec report`."""
    for line in config.stash[_RUNS].describe():
        terminalreporter.write_line(line)


@pytest.fixture
def evalspec_check(request: pytest.FixtureRequest) -> "Callable[..., Mapping[str, Score]]":
    """`evalspec.check` with the judge of the project's manifest. Scores are properties of the test in a JUnit file.

    The manifest is the first one of `evalspec_manifests`, else agent.yaml in the root folder if it exists.
    """
    judge = _read_judge(request.config)

    def check(*arguments: Any, **options: Any) -> "Mapping[str, Score]":
        from evalspec.api.checking import CheckFailed, check

        try:
            scores = check(*arguments, **{"judge": judge, **options})
        except CheckFailed as error:
            _record_scores(request.node, error.scores)
            raise
        _record_scores(request.node, scores)
        return scores

    return check


def _read_judge(config: pytest.Config) -> dict[str, Any] | None:
    from evalspec.manifest.loader import load_manifest

    manifest = next(iter(config.getini("evalspec_manifests") or ()), config.rootpath / "agent.yaml")
    if not manifest.exists():
        return None
    judge = load_manifest(manifest).manifest.spec.evaluation.judge
    return None if judge is None else judge.model_dump(by_alias=True, exclude_unset=True)


def _record_scores(item: pytest.Item, scores: "Mapping[str, Score]") -> None:
    item.user_properties.extend((metric, score.value) for metric, score in scores.items() if score.value is not None)


@dataclass
class _Runs:
    """The runs of this session, one for each dataset of each manifest."""

    config: pytest.Config
    manifests: list[Path] = field(default_factory=list)
    known: dict[tuple[Path, str], "Run"] = field(default_factory=dict)

    def describe(self) -> Iterator[str]:
        for (_, dataset), run in self.known.items():
            yield f"evalspec: {dataset}: {run.verdict.replace('_', ' ')}, run {run.id}"

    def find(self, item: "_Item") -> "Run":
        """Return the run of an item's dataset. Evaluate the dataset if there is none yet."""
        key = item.manifest.path, item.dataset.name
        if key not in self.known:
            self.known[key] = self._share(item)
        return self.known[key]

    def _share(self, item: "_Item") -> "Run":
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
                return load_run(note.read_text(), store=item.manifest.store)
            run = self._make(item)
            note.write_text(run.id)
            return run

    def _make(self, item: "_Item") -> "Run":
        from evalspec.api.evaluation import ProgressCallback, complete, prepare
        from evalspec.api.loops import run_coroutine
        from evalspec.api.public import redacting
        from evalspec.store.run_store import RunStore

        manifest, dataset = item.manifest, item.dataset
        items = [
            one
            for one in item.session.items
            if isinstance(one, _Item) and one.manifest.path == manifest.path and one.dataset.name == dataset.name
        ]
        options = manifest.options(dataset.name, _chosen(items))
        with redacting(manifest.loaded):
            evaluation = prepare(manifest.loaded, options, RunStore(manifest.store))
            session = evaluation.begin()
            return run_coroutine(lambda: complete(session, ProgressCallback(evaluation.plan.total, None)))


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
            no_judge=bool(self.config.getoption("--evalspec-no-judge") or self.config.getini("evalspec_no_judge")),
            only=None if dataset is None or ids is None else {dataset: ids},
        )

    def collect(self) -> Iterator[pytest.Collector]:
        """Yield a collector for each dataset."""
        from evalspec.datasets.selection import select_samples
        from evalspec.errors import InvalidInput
        from evalspec.manifest.loader import load_manifest
        from evalspec.planning.checks import check_datasets

        try:
            self.loaded = load_manifest(self.path)
            datasets = check_datasets(self.loaded, self.options())
        except InvalidInput as error:
            raise self.CollectError("\n".join(problem.render() for problem in error.problems)) from None
        size = self.config.getoption("--evalspec-sample-size")
        for dataset in datasets:
            samples = select_samples(dataset.samples, tags=(), exclude_tags=(), size=size, seed=0)
            yield DatasetCollector.from_parent(self, name=dataset.name, dataset=dataset, samples=samples)


class DatasetCollector(pytest.Collector):
    """A dataset of a manifest."""

    def __init__(self, *, dataset: "PlannedDataset", samples: "Iterable[Sample]", **more: Any) -> None:
        super().__init__(**more)
        self.dataset, self.samples = dataset, list(samples)

    def collect(self) -> Iterator[pytest.Item]:
        """Yield an item for each threshold, one for the verdict, and one for each sample with its tags as marks."""
        names: dict[str, int] = {}
        for threshold in self.dataset.thresholds:
            name = _count(names, _describe(threshold))
            item = ThresholdItem.from_parent(self, name=name, dataset=self.dataset, threshold=threshold)
            if threshold.slice:
                _mark(item, threshold.slice)
            yield item
        yield VerdictItem.from_parent(self, name="verdict", dataset=self.dataset)
        for sample in self.samples:
            asked = SampleItem.from_parent(self, name=f"sample[{sample.id}]", dataset=self.dataset, sample=sample)
            for tag in sample.tags:
                _mark(asked, tag)
            yield asked


class _Item(pytest.Item):
    """Base class of the items: their dataset, and its run."""

    def __init__(self, *, dataset: "PlannedDataset", **more: Any) -> None:
        super().__init__(**more)
        self.dataset = dataset
        self.manifest = next(node for node in self.listchain() if isinstance(node, ManifestFile))
        self.found: Run | None = None

    def setup(self) -> None:
        """Find or make the run. Raise if the item is undecided, skip if it was not measured."""
        from evalspec.errors import EvalspecError

        try:
            self.found = self.config.stash[_RUNS].find(self)
        except EvalspecError as error:
            raise Undecided(str(error)) from None
        self.check_decided(self.result)

    @property
    def run(self) -> "Run":
        """The run of the dataset. Only available after `setup`."""
        if self.found is None:
            raise RuntimeError(f"{self.nodeid} was not set up")
        return self.found

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
        """Raise Undecided if the run could not decide this item, and skip the item if it was not measured."""

    def repr_failure(self, excinfo: pytest.ExceptionInfo[BaseException], style: Any = None) -> Any:
        """Return the message of a failure, without a traceback through this plugin."""
        if isinstance(excinfo.value, Broken | Undecided):
            return str(excinfo.value)
        return super().repr_failure(excinfo, style)

    def reportinfo(self) -> tuple[Path, int | None, str]:
        """Return the path of the manifest and the name of the item."""
        return self.path, None, f"{self.dataset.name}: {self.name}"


class Broken(AssertionError):
    """A limit is broken."""


class Undecided(Exception):
    """The run could not decide an item."""


class ThresholdItem(_Item):
    """One threshold of a dataset."""

    def __init__(self, *, threshold: "Threshold", **more: Any) -> None:
        super().__init__(**more)
        self.threshold = threshold

    def _find_outcome(self) -> "Threshold":
        limit = self.threshold
        same = (limit.metric, limit.stat, limit.slice, limit.min, limit.max)
        return next(o for o in self.result.thresholds if (o.metric, o.stat, o.slice, o.min, o.max) == same)

    def check_decided(self, result: "DatasetResult") -> None:  # noqa: ARG002 - of the base class
        """See the base class."""
        _check_status(outcome := self._find_outcome(), outcome.status)

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
            raise Broken("\n".join([*lines, *(f"  {line}" for line in worst)]))


class VerdictItem(_Item):
    """The verdict on a dataset. It includes checks beyond thresholds, such as the comparison with the baseline."""

    def check_decided(self, result: "DatasetResult") -> None:  # noqa: ARG002 - of the base class
        """See the base class."""
        _check_status(self.run, self.run.verdict)

    def runtest(self) -> None:
        """Fail if the gate fails."""
        if self.run.verdict == "FAIL":
            raise Broken("\n".join([f"{self.dataset.name}: FAIL", *(f"  {reason}" for reason in self.run.reasons)]))


class SampleItem(_Item):
    """One sample. It can only fail if each sample has a limit: `ciGate.minPassRate`."""

    def __init__(self, *, sample: "Sample", **more: Any) -> None:
        super().__init__(**more)
        self.sample = sample

    def runtest(self) -> None:
        """Fail if the pass rate of the sample is below the limit, and show question, answer and limit."""
        from evalspec.api.explaining import explain_pass_rate

        least = self.manifest.loaded.manifest.spec.evaluation.ci_gate.min_pass_rate
        found = next(one for one in self.result.samples if one.id == self.sample.id)
        _record_scores(self, found.scores)
        if least is not None and (found.pass_rate is None or found.pass_rate < least):
            raise Broken("\n".join([*self.explain_texts(self.sample), *explain_pass_rate(found, least)]))


def _check_status(outcome: "Threshold | Run", status: str) -> None:
    reasons = [outcome.reason or ""] if hasattr(outcome, "reason") else outcome.reasons
    if status == "INCOMPLETE":
        raise Undecided("\n".join(["INCOMPLETE", *(f"  {reason}" for reason in reasons)]))
    if status == "NOT_GATED":
        pytest.skip("; ".join(filter(None, reasons)) or "not measured in this run")


def _describe(limit: "Threshold") -> str:
    """Return a threshold as `string_match[kind=capital] >= 0.9`."""
    sides = [f">= {limit.min:g}"] if limit.min is not None else []
    sides += [f"<= {limit.max:g}"] if limit.max is not None else []
    stat = f" {limit.stat}" if limit.stat else ""
    part = f"[{limit.slice}]" if limit.slice else ""
    return f"{limit.metric}{stat}{part} {' and '.join(sides)}"


def _count(names: dict[str, int], name: str) -> str:
    names[name] = names.get(name, 0) + 1
    return name if names[name] == 1 else f"{name} ({names[name]})"


def _mark(item: pytest.Item, name: str) -> None:
    """Add a mark for `-m NAME`, and register it, as `--strict-markers` requires."""
    line = f"{name}: tag or slice of a dataset"
    if line not in item.config.getini("markers"):
        item.config.addinivalue_line("markers", line)
    item.add_marker(name)
