"""The guides for users of other systems: their commands run on a file in the shape of that system."""

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
FOREIGN = Path(__file__).parent / "foreign"
FILES = {
    "ragas": ("ragas.jsonl", "results.jsonl"),
    "deepeval": ("deepeval.json", "goldens.json"),
    "promptfoo": ("promptfoo.yaml", "promptfooconfig.yaml"),
    "openai-evals": ("openai-evals-run.jsonl", "run.jsonl"),
}
BLOCK = re.compile(r"^```sh\n(.*?)^```", re.MULTILINE | re.DOTALL)


@pytest.mark.parametrize("system", FILES)
def test_the_commands_of_a_guide_run(system, tmp_path):
    source, name = FILES[system]
    shutil.copy(FOREIGN / source, tmp_path / name)
    blocks = BLOCK.findall((ROOT / "docs" / "how-to" / f"migrating-from-{system}.md").read_text())
    assert len(blocks) >= 2
    program = f"set -e\nevalspec() {{ '{sys.executable}' -m evalspec \"$@\"; }}\n" + "\n".join(blocks)
    done = subprocess.run(["bash", "-c", program], cwd=tmp_path, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr
