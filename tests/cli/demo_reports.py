"""What the demo prints, with the agent's replies recorded and their latencies fixed, so that no machine changes it.

`python tests/cli/demo_reports.py` rewrites the golden files and the report in reports.md. Read the difference
before you commit it.
"""

import json
import os
import sys
from importlib import import_module
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
GOLDEN = Path(__file__).parent / "golden"
PAGE = ROOT / "docs" / "reference" / "reports.md"
WIDTHS = (40, 60, 80, 120)
PAGE_WIDTH = 100
STRICTER = {"answer_similarity: 0.60": "answer_similarity: 0.90", "Recall@5: 0.80": "Recall@5: 0.95"}
"""The limits that make the demo fail."""
_FIRST_MS, _STEP_MS = 12.0, 0.4
_AGENT = ROOT / "examples" / "agent"


def _load_agent() -> Any:
    """The example's agent without its server. Its modules import each other by their bare names."""
    sys.path.insert(0, str(_AGENT))
    try:
        answering, retrieval = import_module("answering"), import_module("retrieval")
        return answering.Answerer(retrieval.Bm25Index(retrieval.read_corpus(ROOT / "evals" / "corpus.jsonl")))
    finally:
        sys.path.remove(str(_AGENT))
        for name in ("answering", "retrieval"):
            sys.modules.pop(name, None)


def prepare(folder: Path) -> None:
    """Write the demo into a folder: its datasets, its manifest and a stricter one, and the recorded replies."""
    agent = _load_agent()
    (folder / "evals").symlink_to(ROOT / "evals")
    manifest = (ROOT / "agent.yaml.example").read_text()
    (folder / "passing.yaml").write_text(manifest)
    for limit, stricter in STRICTER.items():
        assert limit in manifest
        manifest = manifest.replace(limit, stricter, 1)
    (folder / "failing.yaml").write_text(manifest)
    lines = [json.loads(line) for line in (ROOT / "evals" / "rag.jsonl").read_text().splitlines()]
    with (folder / "replies.jsonl").open("w") as file:
        for place, sample in enumerate(lines):
            asked = sample["input"]
            turns = [asked] if isinstance(asked, str) else [one["content"] for one in asked if one["role"] == "user"]
            reply = agent.answer(turns)
            recorded = {
                "id": sample["id"],
                "response": reply.text,
                "retrieved_contexts": [hit.passage.text for hit in reply.hits],
                "retrieved_context_ids": [hit.passage.id for hit in reply.hits],
                "latencyMs": _FIRST_MS + _STEP_MS * place,
            }
            file.write(json.dumps(recorded) + "\n")


def command(kind: str) -> list[str]:
    """The arguments that evaluate the demo."""
    options = ["--dataset", "rag-quality", "--no-judge", "--responses", "replies.jsonl"]
    return ["evaluate", f"{kind}.yaml", *options]


def golden_file(kind: str, width: int, color: bool) -> Path:
    return GOLDEN / f"{kind}-{width}{'-color' if color else ''}.txt"


def documented_report() -> str:
    """The first text block of the section on terminals."""
    section = PAGE.read_text().partition("\n## Terminal\n")[2]
    return section.partition("```text\n")[2].partition("```")[0]


def _rewrite() -> None:
    import tempfile
    from contextlib import redirect_stdout
    from io import StringIO

    from evalspec.cli.main import run

    def print_report(width: int, *, color: bool) -> str:
        os.environ |= {"COLUMNS": str(width), "FORCE_COLOR": "1" if color else ""}
        with redirect_stdout(StringIO()) as out:
            run(["report"])
        return out.getvalue()

    GOLDEN.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        prepare(Path(folder))
        os.chdir(folder)
        for kind in ("failing", "passing"):
            with redirect_stdout(StringIO()):
                run(command(kind))
            for width in WIDTHS:
                for color in (False, True):
                    golden_file(kind, width, color).write_text(print_report(width, color=color))
        shown = print_report(PAGE_WIDTH, color=False)
    PAGE.write_text(PAGE.read_text().replace(documented_report(), shown, 1))


if __name__ == "__main__":
    _rewrite()
