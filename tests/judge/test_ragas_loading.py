"""ragas that is missing or broken: one line that says what to install."""

import os
import sys

import pytest

from evalspec.base.errors import InvalidInput, MissingPackage
from evalspec.scoring.judge.services import import_ragas


class Refusal:
    """A finder that meets the import of ragas with an error."""

    def __init__(self, error):
        self.error = error

    def find_spec(self, name, path=None, target=None):
        if name == "ragas":
            raise self.error


@pytest.fixture
def refuse(monkeypatch):
    """Make the import of ragas end in an error; what was imported before is put back afterwards."""
    for name in [name for name in sys.modules if name.split(".")[0] == "ragas"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.delitem(sys.modules, "evalspec.scoring.judge.ragas_adapter", raising=False)
    monkeypatch.delenv("RAGAS_DO_NOT_TRACK", raising=False)
    return lambda error: monkeypatch.setattr(sys, "meta_path", [Refusal(error), *sys.meta_path])


def test_a_slim_installation_says_what_to_install(refuse):
    refuse(ModuleNotFoundError("No module named 'ragas'", name="ragas"))
    with pytest.raises(MissingPackage, match=r"^a judged metric needs .* pip install ragas==0\.4\.3 .*openai"):
        import_ragas()
    assert os.environ["RAGAS_DO_NOT_TRACK"] == "true"


@pytest.mark.parametrize(
    "error",
    [
        ModuleNotFoundError("No module named\n'langchain_community.x'", name="langchain_community.x"),
        AttributeError("module has no attribute 'langchain_community.x'"),
    ],
)
def test_a_broken_ragas_is_told_from_a_missing_one(refuse, error):
    refuse(error)
    with pytest.raises(InvalidInput, match=r"^ragas is installed but cannot be imported: .*langchain_com") as caught:
        import_ragas()
    assert not isinstance(caught.value, MissingPackage)
    assert "\n" not in str(caught.value)
