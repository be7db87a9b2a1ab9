"""Documents whose texts stand elsewhere: files beside the dataset, and a function of the user's own."""

import asyncio
import json

import pytest

from evalspec.base.errors import InvalidInput
from evalspec.inputs.datasets.base import Source
from evalspec.inputs.datasets.load import load_dataset
from evalspec.model import Document
from evalspec.targets.retrievers.loaders import count_assets, load_documents, open_loader


def refer(*references, **more):
    return [Document(f"d{n}", metadata={"unrag": {"loaderRef": text}, **more}) for n, text in enumerate(references)]


def load(documents, folder, hook=None):
    return asyncio.run(load_documents(documents, open_loader(folder, hook, folder)))


def refusal(documents, folder, hook=None):
    with pytest.raises(InvalidInput) as caught:
        load(documents, folder, hook)
    return [problem.render() for problem in caught.value.problems]


def test_the_documents_of_an_unrag_dataset(tmp_path):
    entries = [
        {"sourceId": "eval:x:file", "loaderRef": "file:pages/ü.md", "metadata": {"lang": "de"}},
        {"sourceId": "eval:x:both", "loaderRef": "file:gone.md", "content": "given"},
        {"sourceId": "eval:x:own", "loaderRef": "notion:42", "assets": [{"type": "image"}]},
    ]
    dataset = {
        "version": "1",
        "id": "x",
        "defaults": {"scopePrefix": "eval:x:"},
        "documents": entries,
        "queries": [{"id": "q", "query": "?", "relevant": {"sourceIds": ["eval:x:file"]}}],
    }
    (tmp_path / "x.json").write_text(json.dumps(dataset))
    (tmp_path / "pages").mkdir()
    (tmp_path / "pages" / "ü.md").write_text("\ufeffGrüße", encoding="utf-8")
    (tmp_path / "notion.py").write_text("async def load(reference):\n    return 'page ' + reference")
    documents = load_dataset(Source(tmp_path / "x.json", "x.json")).content.documents
    assert count_assets(documents) == 1
    assert load(documents, tmp_path, "notion:load") == (
        Document("eval:x:file", "Grüße", metadata={"lang": "de"}),
        Document("eval:x:both", "given"),
        Document("eval:x:own", "page notion:42"),
    )


def test_a_file_must_stand_in_the_folder_of_the_dataset(tmp_path):
    folder = tmp_path / "evals"
    folder.mkdir()
    (tmp_path / "secret.txt").write_text("secret")
    (folder / "link.txt").symlink_to(tmp_path / "secret.txt")
    references = ["file:../secret.txt", f"file:{tmp_path}/secret.txt", "file:link.txt"]
    said = refusal(refer(*references), folder)
    assert len(said) == 3
    assert all("outside the dataset's folder" in line for line in said)


def test_everything_that_cannot_be_loaded_is_told_at_once(tmp_path):
    (tmp_path / "blank.txt").write_text(" \n")
    (tmp_path / "latin.txt").write_bytes("Zürich".encode("latin-1"))
    (tmp_path / "round").symlink_to("round")
    references = ("file:gone.txt", "file:blank.txt", "file:latin.txt", "file:.", "notion:42", "file:round")
    said = refusal(refer(*references), tmp_path)
    assert said == [
        "document 'd0': loaderRef 'file:gone.txt': it cannot be read: No such file or directory",
        "document 'd1': loaderRef 'file:blank.txt': the text is blank",
        "document 'd2': loaderRef 'file:latin.txt': it is not UTF-8 text (byte 2)",
        "document 'd3': loaderRef 'file:.': it cannot be read: Is a directory",
        "document 'd4': loaderRef 'notion:42': no loader for it; write file:PATH, or set loader to a "
        "function of your own",
        "document 'd5': loaderRef 'file:round': it cannot be read: Too many levels of symbolic links",
    ]


@pytest.mark.parametrize(
    ("source", "says"),
    [
        ("def load(r): return None", "mine:load returned a NoneType, not text"),
        ("def load(r): return ' '", "the text is blank"),
        ("def load(r): return {}[r]", "KeyError: 'a', mine.py:1"),
        ("raise OSError('no token')", "the loader mine:load cannot be imported: OSError: no token, mine.py:1"),
    ],
)
def test_a_function_of_the_users_own_that_fails(tmp_path, source, says):
    (tmp_path / "mine.py").write_text(source)
    [line] = refusal(refer("a"), tmp_path, "mine:load")
    assert says in line


def test_metadata_that_only_looks_like_unrags_stays(tmp_path):
    plain = Document("d", "text", metadata={"unrag": "a word"})
    assert load([plain], tmp_path) == (plain,)
