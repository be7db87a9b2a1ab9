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

from evalspec.manifest.fields import Count, ModuleObject, Name, Number, Positive, Seconds, Share, Strict


class Target(Strict):
    """Search options of every retriever. They override the dataset's, and the command line overrides them."""

    top_k: Positive | None = Field(None, description="Number of distinct documents that the retriever returns.")
    rerank_top_k: Positive | None = Field(None, description="Number of documents to rerank. Default: 3 x topK.")
    input_schema: dict[str, JsonValue] | None = Field(
        None, description="JSON Schema (draft 2020-12) that the input of every query must match."
    )


class Bm25Options(Target):
    """BM25 over the words of title and text, by the `bm25s` library (extra `retrievers`)."""

    builtin: Literal["bm25"]
    k1: Annotated[Number, Field(ge=0)] = 1.5
    b: Share = 0.75
    method: Literal["lucene", "robertson", "atire"] = Field(
        "lucene", description="The variant of the formula, as named by Kamphuis et al. (2020)."
    )
    language: Name | None = Field(
        "english", description="The language of the Snowball stemmer; null: words are not stemmed."
    )


class DenseOptions(Target):
    """Exact cosine similarity of the embeddings configured in `spec.evaluation.embeddings`."""

    builtin: Literal["dense"]


class HybridOptions(Target):
    """Reciprocal rank fusion of `bm25` and `dense`, both with default options."""

    builtin: Literal["hybrid"]
    rrf_k: Annotated[Number, Field(ge=0)] = Field(
        60.0, description="The constant added to each rank. A larger one gives the first ranks less weight."
    )


class QdrantOptions(Target):
    """A Qdrant vector store (extra `qdrant`): a server at `url`, or embedded in the folder `path` or in memory."""

    builtin: Literal["qdrant"]
    url: Name | None = None
    api_key: StrictStr | None = None
    path: Name | None = Field(None, description="Folder of the embedded store.")
    collection: Name = "evalspec"
    timeout_seconds: Seconds = 30.0

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

    builtin: Name = Field(json_schema_extra={"not": {"enum": ["bm25", "dense", "hybrid", "qdrant"]}})


BuiltinOptions = Bm25Options | DenseOptions | HybridOptions | QdrantOptions | PluginOptions


class HttpWire(Strict):
    """Options of every HTTP request. `request`: a JSON template with placeholders such as {{query}}."""

    method: Literal["GET", "POST", "PUT", "PATCH", "DELETE"] = "POST"
    headers: dict[str, StrictStr] = Field(default_factory=dict)
    request: Any = None
    timeout_seconds: Seconds = 30.0
    max_retries: Count = 2


class HitQueries(Strict):
    """JSONPath queries (RFC 9535) that select the hits of a reply, best first. All must select equally many values.

    `ids`: ids of documents. If `document_ids` selects the documents, `ids` selects the ids of their chunks.
    """

    ids: Name
    scores: Name | None = None
    texts: Name | None = None
    document_ids: Name | None = None


class HttpSearch(HttpWire):
    """A search or rerank request. `preset`: a known service's format. Other keys override the preset's."""

    preset: Name | None = None
    path: StrictStr | None = None
    response: HitQueries | None = None

    @model_validator(mode="after")
    def _complete(self) -> "HttpSearch":
        missing = [name for name in ("path", "request", "response") if getattr(self, name) is None]
        if self.preset is None and missing:
            raise ValueError(f"a request without a preset needs {' and '.join(missing)}; add them, or a preset")
        return self


class HttpCall(HttpWire):
    """A request whose reply body is ignored."""

    path: StrictStr


class HttpIngest(HttpCall):
    """A request that indexes `batch_size` documents if its template has {{documents}}, otherwise one document."""

    document: Any = Field(None, description="JSON template of one document in {{documents}}, with {{id}} and {{text}}.")
    batch_size: Positive = 100


class HttpRetriever(Strict):
    """A retriever behind HTTP. `headers` are sent with every request."""

    url: StrictStr | None = None
    headers: dict[str, StrictStr] = Field(default_factory=dict)
    search: HttpSearch
    rerank: HttpSearch | None = None
    ingest: HttpIngest | None = None
    delete: HttpCall | None = None


class HttpTarget(Target):
    """A target `{http: {...}}`."""

    http: HttpRetriever


class PythonTarget(Target):
    """A target `{python: "module:object"}`: a search function, or an object or class with search, ingest, …"""

    python: ModuleObject


RetrieverTarget = BuiltinOptions | HttpTarget | PythonTarget

_MODELS: dict[str, type[Target]] = {
    "bm25": Bm25Options,
    "dense": DenseOptions,
    "hybrid": HybridOptions,
    "qdrant": QdrantOptions,
}
_KINDS: dict[str, type[Target]] = {"builtin": PluginOptions, "http": HttpTarget, "python": PythonTarget}
_WITHOUT_GRID = ("builtin", "http", "python", "input_schema")
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
    single = {key: name for key, name in names.items() if name not in _WITHOUT_GRID}
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
    """Return the JSON Schema of a target as written in the file, with its `$defs`."""
    schema = TypeAdapter(RetrieverTarget).json_schema(by_alias=True, ref_template=ref_template)
    for definition in schema["$defs"].values():
        fields = definition.get("properties", {})
        for name, field in list(fields.items()) if "topK" in fields else ():
            if name not in map(to_camel, _WITHOUT_GRID):
                fields[name] = {"anyOf": [field, {"type": "array", "items": field, "minItems": 1}]}
    return schema
