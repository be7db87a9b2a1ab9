"""The gallery: HTML reports of runs of the examples, whose agents answer here. `make docs` makes them again."""

import socket
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT / "examples" / "service")]

from demo import BROKEN_THRESHOLD, BUILDS, EVALSPEC, write_project  # noqa: E402 - of the examples

FOLDER = "gallery"
"""The folder of the reports in the site."""
REPORTS: Mapping[str, tuple[str, str]] = {
    "failing": (
        "A gate that fails",
        "The agent knows only a part of the help pages: the reasons lead to the samples that miss their thresholds.",
    ),
    "passing": (
        "A gate that passes",
        "The same agent with all help pages: values with intervals, slices, and every sample with its contexts.",
    ),
    "comparison": (
        "A comparison",
        "The two runs above, sample by sample: which metrics changed by more than noise, with both answers.",
    ),
    "booking": (
        "An agent that acts",
        "It books flights: its calls of tools beside the expected ones, and the bookings that it left behind.",
    ),
    "conversation": (
        "Conversations",
        "The same agent in scripted conversations, turn by turn, where the worst turn decides.",
    ),
}
"""Title and description of each report."""
_PORT = "8923"
"""That of the example that acts, which may be taken."""


def render_gallery() -> str:
    """Return the page, with links to the reports in the folder of the site."""
    return "\n\n".join(
        f'## {title}\n\n{said}\n\n<a href="../../{FOLDER}/{name}.html">Open the report: {title}</a>'
        for name, (title, said) in REPORTS.items()
    )


def write_gallery(site: Path) -> None:
    """Run the examples at the same time, and write their reports.

    Raises:
        RuntimeError: a run ends otherwise than by a verdict.
    """
    folder = (site / FOLDER).resolve()
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as place, ThreadPoolExecutor() as pool:
        acting = [pool.submit(_run_acting, Path(place), folder, name) for name in ("booking", "conversation")]
        _run_demo(Path(place) / "demo", folder)
        for one in acting:
            one.result()


def _run_demo(project: Path, folder: Path) -> None:
    write_project(project)
    corpus = project / "corpus.jsonl"
    pages = corpus.read_text(encoding="utf-8").splitlines(keepends=True)
    for name, (share, _) in {"failing": BUILDS[0], "passing": BUILDS[-1]}.items():
        corpus.write_text("".join(pages[: round(share * len(pages))]), encoding="utf-8")
        _call(project, "evaluate", "agent.yaml", "--quiet", "-o", str(folder / f"{name}.html"), "--force")
        _call(project, "runs", "label", "latest", name)
    _call(project, "compare", "failing", "passing", "-o", str(folder / "comparison.html"), "--force")


def _run_acting(place: Path, folder: Path, name: str) -> None:
    project = place / name
    project.mkdir()
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = probe.getsockname()[1]
    for file in (ROOT / "examples" / "acting").glob("*.*"):
        text = file.read_text(encoding="utf-8").replace(_PORT, str(port))
        (project / file.name).write_text(text, encoding="utf-8")
    _call(project, "evaluate", f"{name}.yaml", "--quiet", "-o", str(folder / f"{name}.html"), "--force")


def _call(project: Path, *arguments: str) -> None:
    done = subprocess.run((*EVALSPEC, *arguments), cwd=project, capture_output=True, text=True)
    if done.returncode not in (0, BROKEN_THRESHOLD):
        raise RuntimeError(f"evalspec {' '.join(arguments)} exits with {done.returncode}: {done.stderr}")
