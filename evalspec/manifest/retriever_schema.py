"""The retrievers under test: what stands under a name in `spec.evaluation.retrievers`.

One of three kinds: `{builtin: bm25}`, a baseline that needs no server; `{http: {...}}`, the wire of a service;
`{python: "module:object"}`, the user's own code. Grids are expanded to one target each before these models see them.
"""

from typing import Annotated, Any, Literal

from pydantic import ConfigDict, Field, StrictStr, WrapValidator, model_validator

from evalspec.manifest.schema import Count, Name, Number, Positive, Seconds, Share, Strict


class Bm25Options(Strict):
    """BM25 over the words of title and text, by the `bm25s` library (extra `retrievers`)."""

    builtin: Literal["bm25"]
    k1: Annotated[Number, Field(ge=0)] = 1.5
    b: Share = 0.75
    method: Literal["lucene", "robertson", "atire"] = Field(
        "lucene", description="The variant of the formula, by the names of Kamphuis et al. (2020)."
    )
    language: Name | None = Field(
        "english", description="The Snowball stemmer that brings words to their stems; null leaves words as they are."
    )


class DenseOptions(Strict):
    """Exact cosine over the embeddings that `spec.evaluation.embeddings` names."""

    builtin: Literal["dense"]


class HybridOptions(Strict):
    """Reciprocal rank fusion of `bm25` and `dense`, each with its defaults."""

    builtin: Literal["hybrid"]
    rrf_k: Annotated[Number, Field(ge=0)] = Field(
        60.0, description="The constant added to each rank; the larger, the less the first places weigh."
    )


class QdrantOptions(Strict):
    """A Qdrant vector store (extra `qdrant`): a server by `url`, else embedded, in the folder `path` or in memory."""

    builtin: Literal["qdrant"]
    url: Name | None = None
    api_key: StrictStr | None = None
    path: Name | None = Field(None, description="Folder of the embedded store.")
    collection: Name = "evalspec"
    timeout_seconds: Seconds = 30.0

    @model_validator(mode="after")
    def _one_place(self) -> "QdrantOptions":
        if self.url and self.path:
            raise ValueError("a qdrant store has a url (server) or a path (embedded), not both")
        if self.api_key and not self.url:
            raise ValueError("apiKey belongs to a server; name its url")
        return self


class PluginOptions(Strict):
    """A retriever that another package brings (entry point group `evalspec.retrievers`), with its own options."""

    model_config = ConfigDict(extra="allow")

    builtin: Name = Field(json_schema_extra={"not": {"enum": ["bm25", "dense", "hybrid", "qdrant"]}})


BuiltinOptions = Bm25Options | DenseOptions | HybridOptions | QdrantOptions | PluginOptions


class HttpWire(Strict):
    """What every request of a service has. `request`: a JSON template with placeholders, as {{query}}."""

    method: Literal["GET", "POST", "PUT", "PATCH", "DELETE"] = "POST"
    headers: dict[str, StrictStr] = Field(default_factory=dict)
    request: Any = None
    timeout_seconds: Seconds = 30.0
    max_retries: Count = 2


class HitQueries(Strict):
    """JSONPath queries (RFC 9535) that find the hits in a reply, best first; all that are given find equally many.

    `ids`: of documents, or of chunks where `document_ids` finds the documents that these belong to.
    """

    ids: Name
    scores: Name | None = None
    texts: Name | None = None
    document_ids: Name | None = None


class HttpSearch(HttpWire):
    """A request that answers with hits. `preset`: a known wire; whatever else is given here replaces its part."""

    preset: Literal["autorag", "mixpeek"] | None = None
    path: StrictStr | None = None
    response: HitQueries | None = None

    @model_validator(mode="after")
    def _complete(self) -> "HttpSearch":
        if self.preset == "mixpeek" and self.path is None:
            raise ValueError(
                "preset mixpeek needs the path of the retriever, as in /v1/retrievers/RETRIEVER_ID/execute"
            )
        missing = [name for name in ("path", "request", "response") if getattr(self, name) is None]
        if self.preset is None and missing:
            raise ValueError(f"without a preset it needs {' and '.join(missing)}")
        return self


class HttpCall(HttpWire):
    """A request whose reply says no more than that it is done."""

    path: StrictStr


class HttpIngest(HttpCall):
    """A request that indexes documents: `batch_size` at a time where its template takes {{documents}}, else one."""

    document: Any = Field(None, description="JSON template of one document in {{documents}}; with {{id}} and {{text}}.")
    batch_size: Positive = 100


class HttpRetriever(Strict):
    """A retriever behind HTTP. `headers` go with every request."""

    url: StrictStr | None = None
    headers: dict[str, StrictStr] = Field(default_factory=dict)
    search: HttpSearch
    rerank: HttpSearch | None = None
    ingest: HttpIngest | None = None
    delete: HttpCall | None = None


class HttpTarget(Strict):
    """`{http: {...}}`."""

    http: HttpRetriever


class PythonTarget(Strict):
    """`{python: "module:object"}`: a function that searches, or an object (or class) with search, ingest, …"""

    python: Annotated[StrictStr, Field(pattern=r"^[A-Za-z_][\w.]*:[A-Za-z_][\w.]*$")]


_MODELS: dict[str, type[Strict]] = {
    "bm25": Bm25Options,
    "dense": DenseOptions,
    "hybrid": HybridOptions,
    "qdrant": QdrantOptions,
}
_KINDS: dict[str, type[Strict]] = {"builtin": PluginOptions, "http": HttpTarget, "python": PythonTarget}


def _choose_model(value: Any, _validate_all: Any) -> Any:
    """The one model that the keys speak of, so that its errors stand at the file's own places."""
    if isinstance(value, Strict):
        return value
    kinds = [kind for kind in _KINDS if isinstance(value, dict) and kind in value]
    if len(kinds) != 1:
        raise ValueError("a retriever has one kind; write {builtin: bm25}, {http: {...}} or {python: 'module:object'}")
    name = value.get("builtin")
    model = _MODELS.get(name, PluginOptions) if isinstance(name, str) else _KINDS[kinds[0]]
    return model.model_validate(value)


RetrieverTarget = Annotated[BuiltinOptions | HttpTarget | PythonTarget, WrapValidator(_choose_model)]
