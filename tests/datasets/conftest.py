from collections.abc import Callable
from pathlib import Path

import pytest

from evalspec.inputs.datasets.base import Source
from evalspec.inputs.datasets.load import LoadedDataset, load_dataset


@pytest.fixture
def load_content(tmp_path: Path) -> Callable[..., LoadedDataset]:
    """Loads a dataset with this content, bytes or text."""

    def load(content: bytes | str, name: str, format_name: str | None = None) -> LoadedDataset:
        path = tmp_path / name
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return load_dataset(Source(path, name), format_name)

    return load
