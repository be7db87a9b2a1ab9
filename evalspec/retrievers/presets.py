"""The wires of known retrieval services, for `search: {preset: …}`."""

from collections.abc import Mapping
from typing import Any

from evalspec.manifest.retriever_schema import HttpSearch

PRESETS: Mapping[str, Mapping[str, Any]] = {
    # AutoRAG's API server takes the query alone: how many passages come is settled by its trial.
    "autorag": {
        "path": "/v1/retrieve",
        "request": {"query": "{{query}}"},
        "response": {
            "ids": "$.passages[*].doc_id",
            "scores": "$.passages[*].score",
            "texts": "$.passages[*].content",
        },
    },
    # Mixpeek: `inputs` go by the names of the retriever's own input schema, `query` and `top_k` being the usual ones.
    # Where its documents keep their text depends on the collection.
    "mixpeek": {
        "request": {
            "inputs": {"query": "{{query}}", "top_k": "{{topK}}"},
            "pagination": {"method": "offset", "page_size": "{{topK}}", "page_number": 1},
        },
        "response": {"ids": "$.documents[*].document_id", "scores": "$.documents[*].score"},
    },
}
"""What a preset brings, as it would stand in the manifest."""


def apply_preset(search: HttpSearch) -> HttpSearch:
    """The search with all parts that it leaves open taken from its preset."""
    if search.preset is None:
        return search
    said = search.model_dump(by_alias=True, exclude_unset=True)
    return HttpSearch.model_validate({**PRESETS[search.preset], **said})
