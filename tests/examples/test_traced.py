"""The example of examples/traced runs as it is, but for the port."""

import shutil
from pathlib import Path

from servers.ports import find_free_port

TRACED = Path(__file__).resolve().parents[2] / "examples" / "traced"


def test_retrieval_is_measured_though_the_reply_does_not_show_it(project):
    shutil.copytree(TRACED, project.folder, dirs_exist_ok=True, ignore=shutil.ignore_patterns("__pycache__"))
    path, port = project.folder / "agent.yaml", str(find_free_port())
    path.write_text(path.read_text().replace("8930", port))
    done = project("evaluate", "agent.yaml", "--json")
    assert done.code == 0, done.err
    metrics = done.document["datasets"][0]["metrics"]
    assert {name: metrics[name]["value"] for name in ("Recall@2", "RR", "grounding_overlap", "steps")} == {
        "Recall@2": 1.0,
        "RR": 1.0,
        "grounding_overlap": 1.0,
        "steps": 1.0,
    }
    shown = project("show", "refund").out
    assert "span        search" in shown and "Refunds are paid" in shown
    checked = project("traces", "check", "agent.yaml")
    assert checked.code == 0 and "ok: metric Recall@2: reads ids of retrieved documents" in checked.out
