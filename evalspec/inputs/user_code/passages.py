"""Passages of LangChain and LlamaIndex, recognised by their attributes, so that neither is imported."""

from typing import Any

from msgspec import Struct


class Passage(Struct, frozen=True):
    """A retrieved passage. `id`, `document_id`: unchecked, as the framework has them; None if it has none."""

    text: str
    id: Any = None
    document_id: Any = None
    score: Any = None


def read_passage(item: Any) -> Passage | None:
    """Return a Document of LangChain, or a node of LlamaIndex with or without its score; None for anything else.

    A Document without an id has the id in its metadata, if there is one. `document_id` in the metadata is the document
    that it is a chunk of. For a node, that is its source document.
    """
    text = getattr(item, "page_content", None)
    if isinstance(text, str):
        metadata = getattr(item, "metadata", None) or {}
        return Passage(text, getattr(item, "id", None) or metadata.get("id"), metadata.get("document_id"))
    node = getattr(item, "node", item)
    if not hasattr(node, "node_id") or not callable(getattr(node, "get_content", None)):
        return None
    return Passage(node.get_content(), node.node_id, getattr(node, "ref_doc_id", None), getattr(item, "score", None))
