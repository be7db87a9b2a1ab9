"""`from evalspec import gold`: every name is the function or class, whatever was imported before."""

import subprocess
import sys
from importlib import import_module
from pathlib import Path

from evalspec import gold

PROGRAM = """
import sys
from evalspec import gold
assert not {"numpy", "ragas", "rich"} & set(sys.modules)
from evalspec.cli.gold import COMMANDS, command
for name in COMMANDS:
    command.get_command(None, name)
for name in gold.__all__ * 2:
    assert callable(getattr(gold, name)), name
"""


def test_every_name_is_callable_before_and_after_its_module_is_imported():
    subprocess.run([sys.executable, "-c", PROGRAM], check=True)
    assert [getattr(gold, name).__name__ for name in gold.__all__] == gold.__all__
    assert set(gold.__all__) <= set(dir(gold))
    modules = {path.stem for path in Path(gold.__file__).parent.glob("*.py")}
    assert not modules & set(gold.__all__), "importing the module would replace the function"
    assert import_module("evalspec.curation.gold.protocol").review is gold.review
