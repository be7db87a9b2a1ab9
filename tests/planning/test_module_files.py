"""The files that a scorer's code is in: its module and all that it imports from the manifest's folder."""

import pytest

from evalspec.inputs.user_code.modules import check_module, list_module_files

FILES = {
    "direct.py": "import near, os.path, missing\n",
    "near.py": "def f():\n    from kit.deep import score\n",
    "kit/__init__.py": "",
    "kit/deep.py": "from . import side\nfrom .side import x\nfrom ..near import f\n",
    "kit/side.py": "from kit import *\nimport direct\n",
    "kit/unused.py": "",
    "bare/inner.py": "",
    "from_bare.py": "from bare import inner\n",
    "broken.py": "import near\ndef (\n",
    "uses_broken.py": "import broken\n",
    "long_sum.py": f"import near\nTEXT = {' + '.join(['near.f'] * 500)}\n",
    "endless_sum.py": f"TEXT = {'-' * 100_000}1\n",
    "uses_endless_sum.py": "import endless_sum\n",
}


@pytest.fixture
def folder(tmp_path):
    for name, text in FILES.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    return tmp_path


@pytest.mark.parametrize(
    ("module", "files"),
    [
        ("kit.unused", {"kit/unused.py", "kit/__init__.py"}),
        ("kit.side", {"kit/side.py", "kit/__init__.py", "direct.py", "near.py", "kit/deep.py"}),
        ("direct", {"direct.py", "near.py", "kit/__init__.py", "kit/deep.py", "kit/side.py"}),
        ("from_bare", {"from_bare.py", "bare/inner.py"}),
        ("uses_broken", {"uses_broken.py", "broken.py"}),
        ("long_sum", {"long_sum.py", "near.py", "kit/__init__.py", "kit/deep.py", "kit/side.py", "direct.py"}),
        ("uses_endless_sum", {"uses_endless_sum.py", "endless_sum.py"}),
        ("nowhere", set()),
    ],
)
def test_all_files_that_are_imported(module, files, folder):
    assert {path.relative_to(folder).as_posix() for path in list_module_files(folder, module)} == files


def test_a_module_is_checked_however_long_its_expressions_are(folder):
    assert check_module(folder, "long_sum", "TEXT") == []
    (problem,) = check_module(folder, "endless_sum", "TEXT")
    assert problem == "endless_sum.py cannot be read: its code is nested too deeply for Python"
