"""The pytest plugin: `pytest agent.yaml` collects a test for each threshold and each sample of each dataset.

A plain `pytest` collects no manifest. Each dataset is evaluated once, when its first item is set up, with the samples
that are selected (`-k`, `-m TAG`, `--lf`). xdist workers share the run.
"""

import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from evalspec.pytest_plugin.items import ManifestFile, leaves_judge_out, record_scores
from evalspec.pytest_plugin.runs import RUNS, SessionRuns

if TYPE_CHECKING:
    from evalspec.model import Score

_SUFFIXES = (".yaml", ".yml")
_MARK = b"agentspec.io/"
_OFF = ("", "0", "f", "false", "n", "no", "off")


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the command-line options and ini settings."""
    group = parser.getgroup("evalspec", "evalspec: manifests as tests")
    group.addoption("--evalspec", action="store_true", help="Also collect the manifests in `evalspec_manifests`.")
    group.addoption("--evalspec-url", metavar="URL", help="Base URL of the agent. Overrides spec.api.url.")
    group.addoption("--evalspec-sample-size", metavar="N", type=_count, help="Maximum number of samples per dataset.")
    group.addoption("--evalspec-slice", metavar="NAME", help="Use only this slice of the gold set.")
    group.addoption("--evalspec-no-judge", action="store_true", help="Skip judged metrics.")
    parser.addini("evalspec_manifests", "Manifests that --evalspec collects.", type="paths", default=None)
    parser.addini("evalspec_no_judge", "Skip judged metrics.", type="bool", default=False)


def _count(text: str) -> int:
    number = int(text)
    if number < 1:
        raise ValueError(text)
    return number


def pytest_load_initial_conftests(early_config: pytest.Config) -> None:
    """Refuse manifests with EVALSPEC_UNTRUSTED before pytest imports the project's conftest.py, and any other code.

    Raises:
        UsageError: A manifest is to be collected.
    """
    asked = early_config.known_args_namespace
    paths = [Path(name.partition("::")[0]) for name in asked.file_or_dir]
    is_untrusted = os.environ.get("EVALSPEC_UNTRUSTED", "").casefold() not in _OFF
    if is_untrusted and (asked.evalspec or any(path.suffix in _SUFFIXES for path in paths)):
        message = "EVALSPEC_UNTRUSTED is set, and pytest runs a project's code"
        raise pytest.UsageError(f"evalspec: {message}. use evalspec evaluate --untrusted, or unset it")


def pytest_configure(config: pytest.Config) -> None:
    """With `--evalspec`, add the manifests of `evalspec_manifests` to the paths to collect."""
    runs = config.stash[RUNS] = SessionRuns(config)
    if config.getoption("--evalspec"):
        runs.manifests.extend(config.getini("evalspec_manifests") or [config.rootpath / "agent.yaml"])
        config.args.extend(str(path) for path in runs.manifests)


def pytest_collect_file(file_path: Path, parent: pytest.Collector) -> "ManifestFile | None":
    """Collect a manifest, if it is given on the command line or in `evalspec_manifests`.

    Both are checked, because pytest drops an argument that is inside the folder of another argument.
    """
    if file_path.suffix not in _SUFFIXES:
        return None
    if file_path not in parent.config.stash[RUNS].manifests and not parent.session.isinitpath(file_path):
        return None
    return ManifestFile.from_parent(parent, path=file_path) if _MARK in file_path.read_bytes() else None


def pytest_sessionfinish(session: pytest.Session) -> None:
    """In a worker of xdist, send the names of its runs to the controller."""
    if hasattr(session.config, "workeroutput"):
        session.config.workeroutput["evalspec"] = list(session.config.stash[RUNS].describe())


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any) -> None:
    """Receive the names of the runs of a worker."""
    lines = getattr(node, "workeroutput", {}).get("evalspec", ())
    node.config.stash[RUNS].of_workers.update(dict.fromkeys(lines))


def pytest_terminal_summary(terminalreporter: Any, config: pytest.Config) -> None:
    """Print the ids of the runs, for `evalspec report`."""
    for line in config.stash[RUNS].describe():
        terminalreporter.write_line(line)


@pytest.fixture
def evalspec_check(request: pytest.FixtureRequest) -> "Callable[..., Mapping[str, Score]]":
    """`evalspec.check` with the judge of the project's manifest. Scores are properties of the test in a JUnit file.

    The manifest is the first one of `evalspec_manifests`, else agent.yaml in the root folder if it exists.
    """
    given = {"judge": _read_judge(request.config), "no_judge": leaves_judge_out(request.config)}

    def check(*arguments: Any, **options: Any) -> "Mapping[str, Score]":
        from evalspec.api.checking import CheckFailed, check

        __tracebackhide__ = True
        try:
            scores = check(*arguments, **given | options)
        except CheckFailed as error:
            record_scores(request.node, error.scores)
            raise
        record_scores(request.node, scores)
        if all(scores[metric].status == "skipped" for metric in options["metrics"] if metric in scores):
            pytest.skip("judged metrics are left out (evalspec_no_judge)")
        return scores

    return check


def _read_judge(config: pytest.Config) -> dict[str, Any] | None:
    from evalspec.inputs.manifest.loader import load_manifest

    manifest = next(iter(config.getini("evalspec_manifests") or ()), config.rootpath / "agent.yaml")
    if not manifest.exists():
        return None
    judge = load_manifest(manifest).manifest.spec.evaluation.judge
    if judge is None:
        return None
    declared = judge.model_dump(by_alias=True, exclude_unset=True)
    return {key: _absolute(value, manifest.parent) for key, value in declared.items()}


def _absolute(value: Any, folder: Path) -> Any:
    """Return a `$file:` reference that does not depend on the folder of its manifest."""
    if isinstance(value, str) and value.startswith("$file:"):
        return f"$file:{(folder / value.removeprefix('$file:')).resolve()}"
    return value
