import pytest

from evalspec.inputs.datasets.base import Source
from evalspec.inputs.datasets.load import load_dataset


@pytest.fixture
def load_content(tmp_path):
    """Loads a dataset with this content, bytes or text."""

    def load(content, name, format_name=None):
        path = tmp_path / name
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return load_dataset(Source(path, name), format_name)

    return load
