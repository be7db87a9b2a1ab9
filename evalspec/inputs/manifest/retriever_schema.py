"""The retrievers under test: the values in `spec.evaluation.retrievers`.

There are three kinds:

- `{builtin: bm25}`: a baseline that needs no server.
- `{http: {...}}`: the requests and replies of a service.
- `{python: "module:object"}`: the user's own code.

A list as the value of an option is a grid: the target has one variant for each combination.
"""

from itertools import product
from math import prod
from typing import Annotated, Any, Literal

from pydantic import ConfigDict, Field, JsonValue, StrictStr, TypeAdapter, model_validator
from pydantic.alias_generators import to_camel

from evalspec.inputs.manifest.auth_schema import Authenticated, PollConfig
from evalspec.inputs.manifest.fields import (
    Count,
    ManifestModel,
    ModuleObject,
    Name,
    Number,
    Positive,
    Seconds,
    Share,
    UntitledKeys,
)

_SELECTS: Any = Field(description="Selects this built-in retriever.")


class Target(ManifestModel):
    """Search options of every retriever. They override the dataset's, and the command line overrides them."""

    top_k: Positive | None = Field(
        None, description="Number of distinct documents to rank; --top-k overrides it. Default: the dataset's."
    )
    rerank_top_k: Positive | None = Field(
        None,
        description="Number of documents to rerank, at least topK; --rerank-top-k overrides it. Default: the "
        "dataset's.",
    )
    input_schema: dict[str, JsonValue] | None = Field(
        None, description="JSON Schema (draft 2020-12) that the input of every query must match."
    )


class Bm25Options(Target):
    """BM25 over the words of title and text, by the `bm25s` library (extra `retrievers`)."""

    builtin: Literal["bm25"] = _SELECTS
    k1: Annotated[Number, Field(ge=0)] = Field(
        1.5, description="Term frequency saturation: a larger value gives repeated words more weight."
    )
    b: Share = Field(0.75, description="Document length normalisation, from 0 (none) to 1 (full).")
    method: Literal["lucene", "robertson", "atire"] = Field(
        "lucene", description="Variant of the formula, as named by Kamphuis et al. (2020)."
    )
    language: Name | None = Field(
        "english", description="Language of the Snowball stemmer; null: words are not stemmed."
    )


class DenseOptions(Target):
    """Exact cosine similarity of the embeddings configured in `spec.evaluation.embeddings`."""

    builtin: Literal["dense"] = _SELECTS


class HybridOptions(Target):
    """Reciprocal rank fusion of `bm25` and `dense`, both with default options."""

    builtin: Literal["hybrid"] = _SELECTS
    rrf_k: Annotated[Number, Field(ge=0)] = Field(
        60.0, description="The constant added to each rank. A larger one gives the first ranks less weight."
    )


class QdrantOptions(Target):
    """A Qdrant vector store (extra `qdrant`): a server at `url`, or embedded in the folder `path` or in memory."""

    builtin: Literal["qdrant"] = _SELECTS
    url: Name | None = Field(None, description="URL of the server. Without `url` and `path`, the store is in memory.")
    api_key: StrictStr | None = Field(None, description="Key of the server, best as a reference such as `$env:NAME`.")
    path: Name | None = Field(None, description="Folder of the embedded store, relative to the manifest.")
    collection: Name = Field("evalspec", description="Where documents are stored; created if it does not exist.")
    timeout_seconds: Seconds = Field(30.0, description="Seconds for one request to the server.")

    @model_validator(mode="after")
    def _one_place(self) -> "QdrantOptions":
        if self.url and self.path:
            raise ValueError("qdrant has both url (a server) and path (embedded); remove one of them")
        if self.api_key and not self.url:
            raise ValueError("apiKey is used with a server only; add its url, or remove apiKey")
        return self


class PluginOptions(Target):
    """A retriever of another package (entry point group `evalspec.retrievers`), with options of its own."""

    model_config = ConfigDict(extra="allow")

    builtin: Name = Field(
        description="Name under which the package registered the retriever.",
        json_schema_extra={"not": {"enum": ["bm25", "dense", "hybrid", "qdrant"]}},
    )


BuiltinOptions = Bm25Options | DenseOptions | HybridOptions | QdrantOptions | PluginOptions


class HttpWire(ManifestModel):
    """Options of every HTTP request."""

    method: Literal["GET", "POST", "PUT", "PATCH", "DELETE"] = Field(
        "POST", description="HTTP method. With GET, the keys of `request` become query parameters."
    )
    headers: dict[str, StrictStr] = Field(
        default_factory=dict, description="HTTP headers of this call. They override the retriever's."
    )
    request: Any = Field(None, description="JSON template; placeholders such as {{query}} are replaced by values.")
    poll: PollConfig | None = None
    timeout_seconds: Seconds = Field(
        30.0,
        description="Seconds for one attempt, from sending to the last byte of the reply, or of the result of a job.",
    )
    max_retries: Count = Field(
        2,
        description="Retries of a failed call. A query is repeated from its search, up to the larger value of `search` "
        "and `rerank`.",
    )


class HitQueries(ManifestModel):
    """JSONPath queries (RFC 9535) that select the hits of a reply, best first. All must select equally many values."""

    ids: Name = Field(description="Ids of documents, or of chunks if `documentIds` is set.")
    scores: Name | None = Field(None, description="Finite numbers. They do not change the order of the reply.")
    texts: Name | None = Field(None, description="Texts of the hits, for rerankers, metrics of passages and reports.")
    document_ids: Name | None = Field(None, description="The documents that the chunks belong to.")


class HttpSearch(HttpWire):
    """A request that returns hits: a search, or the reranking of its hits."""

    preset: Name | None = Field(None, description="A known API. Each key that is set next to it replaces that part.")
    path: StrictStr | None = Field(
        None, description="Path under the url, with placeholders; required unless the preset has one."
    )
    response: HitQueries | None = Field(None, description="Where the hits are in the reply; required without a preset.")

    @model_validator(mode="after")
    def _complete(self) -> "HttpSearch":
        missing = [name for name in ("path", "request", "response") if getattr(self, name) is None]
        if self.preset is None and missing:
            raise ValueError(f"a request without a preset needs {' and '.join(missing)}; complete it, or name a preset")
        return self


class HttpCall(HttpWire):
    """A request whose reply body is ignored."""

    path: StrictStr = Field(description="Path under the url, with placeholders.")


class HttpIngest(HttpCall):
    """A request that indexes a batch of documents if its template has {{documents}}, otherwise one document."""

    document: Any = Field(
        None,
        description="JSON template of each document in {{documents}}. Default: an object with id, title, text and "
        "metadata.",
    )
    batch_size: Positive = Field(100, description="Documents in one request with {{documents}}.")


class HttpRetriever(Authenticated):
    """A retriever behind HTTP: its address and its requests."""

    url: StrictStr | None = Field(None, description="Base URL, without placeholders. Default: that of the agent.")
    headers: dict[str, StrictStr] = Field(
        default_factory=dict, description="HTTP headers of every request. Values may contain references."
    )
    search: HttpSearch = Field(description="The request that returns the hits of a query.")
    rerank: HttpSearch | None = Field(
        None, description="The request that reranks hits; required by `mode: retrieve+rerank`."
    )
    ingest: HttpIngest | None = Field(
        None,
        description="The request that indexes documents; required, with `delete`, if the dataset has documents, unless "
        "--no-ingest searches what is indexed already.",
    )
    delete: HttpCall | None = Field(
        None, description="The request that deletes all documents of a scope; it must contain {{scopePrefix}}."
    )


class HttpTarget(Target):
    """A retriever behind HTTP."""

    http: HttpRetriever


class PythonTarget(Target):
    """A retriever in Python."""

    python: ModuleObject = Field(
        description="module:object next to the manifest: a search function, or an object or class with a method search."
    )


RetrieverTarget = BuiltinOptions | HttpTarget | PythonTarget

_MODELS: dict[str, type[Target]] = {
    "bm25": Bm25Options,
    "dense": DenseOptions,
    "hybrid": HybridOptions,
    "qdrant": QdrantOptions,
}
_KINDS: dict[str, type[Target]] = {"builtin": PluginOptions, "http": HttpTarget, "python": PythonTarget}
WITHOUT_GRID = ("builtin", "http", "python", "input_schema")
"""Options that cannot be a list of values to try."""

_MAX_VARIANTS = 100
_FREE = "a retriever has exactly one kind; write {builtin: bm25}, {http: {...}} or {python: 'module:object'}"


def read_variants(value: Any) -> dict[str, RetrieverTarget]:
    """Return the variants of a target by their labels. A target without a grid has the label "".

    The target's keys select one model, so that errors have the places of the file, not of a union.
    """
    model = _choose_model(value)
    return {label: model.model_validate(variant) for label, variant in _find_variants(value, model).items()}


def _choose_model(value: Any) -> type[Any]:
    kinds = [kind for kind in _KINDS if isinstance(value, dict) and kind in value]
    if len(kinds) != 1:
        raise ValueError(_FREE)
    name = value.get("builtin")
    return _MODELS.get(name, PluginOptions) if isinstance(name, str) else _KINDS[kinds[0]]


def _find_variants(value: dict[str, Any], model: type[Target]) -> dict[str, dict[str, Any]]:
    """Return a variant for each combination of the options given as lists."""
    names = {alias: name for name, field in model.model_fields.items() for alias in (name, field.alias or name)}
    single = {key: name for key, name in names.items() if name not in WITHOUT_GRID}
    grid = {key: options for key, options in value.items() if isinstance(options, list) and key in single}
    for key, options in grid.items():
        if not options or len({str(option) for option in options}) < len(options):
            raise ValueError(f"the list of {key} is empty or has a duplicate value; write each value once")
    if prod(len(options) for options in grid.values()) > _MAX_VARIANTS:
        raise ValueError(f"the lists make more than {_MAX_VARIANTS} variants; shorten them")
    combinations = (dict(zip(grid, chosen, strict=True)) for chosen in product(*grid.values()))
    return {
        ",".join(f"{to_camel(single[key])}={option}" for key, option in chosen.items()): value | chosen
        for chosen in combinations
    }


def retriever_json_schema(ref_template: str) -> dict[str, Any]:
    """Return the JSON Schema of a retriever as written in the file, with its `$defs`."""
    target = TypeAdapter(RetrieverTarget)
    schema = target.json_schema(by_alias=True, ref_template=ref_template, schema_generator=UntitledKeys)
    for definition in schema["$defs"].values():
        fields = definition.get("properties", {})
        for name, field in list(fields.items()) if "topK" in fields else ():
            if name not in map(to_camel, WITHOUT_GRID):
                of_key = {part: field.pop(part) for part in ("default", "description") if part in field}
                fields[name] = {"anyOf": [field, {"type": "array", "items": field, "minItems": 1}], **of_key}
    return schema
