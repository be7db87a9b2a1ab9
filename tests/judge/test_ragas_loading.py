"""ragas that is missing or broken: one line that says what to install."""

import os
import sys

import pytest

from evalspec.errors import InvalidInput, MissingExtra
from evalspec.judge.ragas_loading import import_ragas


@pytest.fixture
def absent(monkeypatch):
    """Make the import of a module fail, for an adapter that is not loaded yet."""
    monkeypatch.delitem(sys.modules, "evalspec.judge.ragas_adapter", raising=False)
    monkeypatch.delenv("RAGAS_DO_NOT_TRACK", raising=False)
    return lambda name: monkeypatch.setitem(sys.modules, name, None)


def test_a_slim_installation_says_what_to_install(absent):
    absent("ragas")
    with pytest.raises(MissingExtra, match=r"a judged metric needs .* pip install 'evalspec\[judge\]'"):
        import_ragas()
    assert os.environ["RAGAS_DO_NOT_TRACK"] == "true"


def test_a_broken_ragas_is_told_from_a_missing_one(absent):
    absent("ragas.embeddings")
    absent("ragas.embeddings.base")
    with pytest.raises(InvalidInput, match=r"ragas is installed but cannot be imported: .*ragas\.embeddings") as caught:
        import_ragas()
    assert not isinstance(caught.value, MissingExtra)
    assert "\n" not in str(caught.value)
