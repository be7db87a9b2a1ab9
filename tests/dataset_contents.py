"""Dataset contents as hypothesis makes them up, and the way through a format and back."""

from pathlib import Path
from typing import Any

from hypothesis import strategies as st
from msgspec.structs import replace

from evalspec.inputs.datasets.base import DATASETS, DatasetContent, Source
from evalspec.inputs.datasets.load import LoadedDataset, load_dataset
from evalspec.model import Message, Sample

JUDGED = DatasetContent([Sample("1", "how many?", qrels={"a": 1}), Sample("2", "and how much?", qrels={"b": 1})])
WRITTEN = [one.name for one in DATASETS if one.write]
"""Formats that evalspec writes."""
HOLDING_JUDGEMENTS = [one.name for one in DATASETS if one.write and not one.list_losses(JUDGED)]
"""Formats that can hold a question with its relevant documents."""

TEXT = st.text(min_size=1)
WORDS = TEXT.filter(str.strip)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3),
    max_leaves=5,
)
METADATA = st.dictionaries(TEXT, JSON, max_size=3)
SAMPLES_OF_ANY_KIND = st.lists(
    st.builds(
        Sample,
        id=WORDS,
        user_input=WORDS | WORDS.map(lambda text: (Message("user", "before"), Message("user", text))),
        references=st.lists(WORDS, max_size=2).map(tuple),
        retrieved_contexts=st.none() | st.just(("passage",)),
        reference_contexts=st.none() | st.just(("passage",)),
        qrels=st.none() | st.dictionaries(WORDS, st.integers(-1, 7), max_size=3),
        tags=st.just(()) | st.just(("tag",)),
        metadata=METADATA,
        answerable=st.none() | st.booleans(),
    ),
    min_size=1,
    max_size=3,
    unique_by=lambda sample: sample.id,
)


def samples(**fields: st.SearchStrategy[Any]) -> st.SearchStrategy[list[Sample]]:
    """At least one sample of these fields, all else as it is by default; the ids differ."""
    made = st.builds(Sample, **fields)
    return st.lists(made, min_size=1, max_size=3, unique_by=lambda sample: sample.id)


def there_and_back(content: DatasetContent, name: str, path: Path) -> tuple[LoadedDataset, DatasetContent]:
    """Written to a file and read again: the loaded dataset, and its content without the lines."""
    form = DATASETS.find(name)
    assert form is not None
    assert form.write is not None
    form.write(content, path)
    loaded = load_dataset(Source(path, path.name), name)
    read = [replace(sample, line=None) for sample in loaded.samples]
    return loaded, DatasetContent(read, loaded.content.documents, loaded.content.defaults)
