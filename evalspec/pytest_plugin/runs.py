"""The runs of a pytest session, which decide its items."""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from evalspec.base.foreign_text import inert

if TYPE_CHECKING:
    from evalspec.api.explaining import Answers
    from evalspec.model import DatasetResult, Run, SampleResult
    from evalspec.pytest_plugin.items import DatasetItem

RUNS = pytest.StashKey["SessionRuns"]()


@dataclass
class DatasetRun:
    """The run of one dataset, and what its items look up in it. `store`: the folder of the runs.

    `is_whole`: all samples were evaluated, because a threshold or the verdict was selected.
    """

    run: "Run"
    store: Path
    is_whole: bool

    @property
    def result(self) -> "DatasetResult":
        """The result of the dataset."""
        return self.run.datasets[0]

    @cached_property
    def samples(self) -> "Mapping[str, SampleResult]":
        """The results of the samples by id."""
        return {sample.id: sample for sample in self.result.samples}

    @cached_property
    def answers(self) -> "Answers":
        """The agent's answers."""
        from evalspec.api.explaining import Answers
        from evalspec.runs.store.run_store import RunStore
        from evalspec.runs.store.stored_run import open_run

        return Answers(open_run(RunStore(self.store).find(self.run.id)))


@dataclass
class SessionRuns:
    """The runs of this session, one for each dataset of each manifest."""

    config: pytest.Config
    manifests: list[Path] = field(default_factory=list)
    known: dict[tuple[Path, str], DatasetRun | str] = field(default_factory=dict)
    of_workers: dict[str, None] = field(default_factory=dict)

    def describe(self) -> Iterator[str]:
        """Yield a line on each run: its verdict, if the whole dataset was evaluated, and its id."""
        yield from self.of_workers
        for (_, name), found in self.known.items():
            if isinstance(found, DatasetRun):
                said = found.run.verdict_text if found.is_whole else f"{found.result.selected} selected samples"
                yield f"evalspec: {inert(name)}: {said}, run {found.run.id}"

    def find(self, item: "DatasetItem") -> DatasetRun | str:
        """Return the run of an item's dataset, or why there is none. Evaluate each dataset once."""
        key = item.manifest.path, item.dataset.name
        if key not in self.known:
            self.known[key] = "the evaluation of the dataset was interrupted"
            chosen = item.choose_samples()
            run = self._share(item, chosen)
            self.known[key] = run if isinstance(run, str) else DatasetRun(run, item.manifest.store, chosen is None)
        return self.known[key]

    def _share(self, item: "DatasetItem", chosen: frozenset[str] | None) -> "Run | str":
        """Return the run. Under xdist, the first worker evaluates the dataset, and the others load its run."""
        worker = getattr(self.config, "workerinput", None)
        if worker is None:
            return self._make(item, chosen)
        from filelock import FileLock

        from evalspec.api.public import load_run

        folder = item.manifest.store.parent / ".evalspec" / "pytest"
        folder.mkdir(parents=True, exist_ok=True)
        note = folder / f"{worker['testrunuid']}-{_digest(item.manifest.path, item.dataset.name)}"
        with FileLock(note.with_suffix(".lock")):
            if note.exists():
                found = json.loads(note.read_text(encoding="utf-8"))
                return found["error"] if "error" in found else load_run(found["run"], store=item.manifest.store)
            run = self._make(item, chosen)
            note.write_text(json.dumps({"error": run} if isinstance(run, str) else {"run": run.id}), encoding="utf-8")
            return run

    def _make(self, item: "DatasetItem", chosen: frozenset[str] | None) -> "Run | str":
        from evalspec.api.evaluation import ProgressCallback, complete, prepare
        from evalspec.api.loops import run_coroutine
        from evalspec.api.public import redacting
        from evalspec.base.errors import EvalspecError
        from evalspec.runs.store.run_store import RunStore

        manifest = item.manifest
        try:
            with redacting(manifest.loaded):
                options = manifest.options(item.dataset.name, chosen)
                evaluation = prepare(manifest.loaded, options, RunStore(manifest.store))
                session = evaluation.begin()
                return run_coroutine(lambda: complete(session, ProgressCallback(evaluation.plan.total, None)))
        except EvalspecError as error:
            return str(error)


def _digest(path: Path, dataset: str) -> str:
    from hashlib import sha256

    return sha256(f"{path.resolve()}\0{dataset}".encode(errors="surrogateescape")).hexdigest()[:16]
