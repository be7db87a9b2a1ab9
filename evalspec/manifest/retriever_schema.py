"""The retrievers under test: what stands under a name in `spec.evaluation.retrievers`.

One of three kinds: `{builtin: bm25}`, a baseline that needs no server; `{http: {...}}`, the wire of a service;
`{python: "module:object"}`, the user's own code. A list where one of a target's own numbers or names belongs is a grid:
the target stands for one variant a combination.
"""

from itertools import product
from math import prod
from typing import Annotated, Any, Literal

from pydantic import ConfigDict, Field, StrictStr, TypeAdapter, WrapValidator, model_validator
from pydantic.alias_generators import to_camel

from evalspec.manifest.fields import Count, ModuleObject, Name, Number, Positive, Seconds, Share, Strict


class Target(Strict):
    """What every retriever may say of how it is asked; the command line wins over it, and it over the dataset."""

    top_k: Positive | None = Field(None, description="How many distinct documents it ranks.")
    rerank_top_k: Positive | None = Field(None, description="How many documents it reranks; 3 x topK where not given.")


class Bm25Options(Target):
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


class DenseOptions(Target):
    """Exact cosine over the embeddings that `spec.evaluation.embeddings` names."""

    builtin: Literal["dense"]


class HybridOptions(Target):
    """Reciprocal rank fusion of `bm25` and `dense`, each with its defaults."""

    builtin: Literal["hybrid"]
    rrf_k: Annotated[Number, Field(ge=0)] = Field(
        60.0, description="The constant added to each rank; the larger, the less the first places weigh."
    )


class QdrantOptions(Target):
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


class PluginOptions(Target):
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

    preset: Name | None = None
    path: StrictStr | None = None
    response: HitQueries | None = None

    @model_validator(mode="after")
    def _complete(self) -> "HttpSearch":
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


class HttpTarget(Target):
    """`{http: {...}}`."""

    http: HttpRetriever


class PythonTarget(Target):
    """`{python: "module:object"}`: a function that searches, or an object (or class) with search, ingest, …"""

    python: ModuleObject


RetrieverTarget = BuiltinOptions | HttpTarget | PythonTarget

_MODELS: dict[str, type[Target]] = {
    "bm25": Bm25Options,
    "dense": DenseOptions,
    "hybrid": HybridOptions,
    "qdrant": QdrantOptions,
}
_KINDS: dict[str, type[Target]] = {"builtin": PluginOptions, "http": HttpTarget, "python": PythonTarget}
_MAX_VARIANTS = 100
_FREE = "a retriever has one kind; write {builtin: bm25}, {http: {...}} or {python: 'module:object'}"


def _expand(value: Any, _validate: Any) -> dict[str, RetrieverTarget]:
    """The variants of a target by their labels, each validated by the one model that its keys speak of, so that its
    errors stand at the file's own places. A target without a grid has the label ""."""
    model = _choose_model(value)
    return {label: model.model_validate(variant) for label, variant in _find_variants(value, model).items()}


def _choose_model(value: Any) -> type[Any]:
    kinds = [kind for kind in _KINDS if isinstance(value, dict) and kind in value]
    if len(kinds) != 1:
        raise ValueError(_FREE)
    name = value.get("builtin")
    return _MODELS.get(name, PluginOptions) if isinstance(name, str) else _KINDS[kinds[0]]


def _find_variants(value: dict[str, Any], model: type[Target]) -> dict[str, dict[str, Any]]:
    """Every combination of the values that stand as lists where the model has one value."""
    names = {alias: name for name, field in model.model_fields.items() for alias in (name, field.alias or name)}
    single = {key: name for key, name in names.items() if name not in ("builtin", "http", "python")}
    grid = {key: options for key, options in value.items() if isinstance(options, list) and key in single}
    for key, options in grid.items():
        if not options or len({str(option) for option in options}) < len(options):
            raise ValueError(f"the list of {key} is empty or has a value twice; each makes one variant")
    if prod(len(options) for options in grid.values()) > _MAX_VARIANTS:
        raise ValueError(f"the lists make more than {_MAX_VARIANTS} variants; shorten them")
    combinations = (dict(zip(grid, chosen, strict=True)) for chosen in product(*grid.values()))
    return {
        ",".join(f"{to_camel(single[key])}={option}" for key, option in chosen.items()): value | chosen
        for chosen in combinations
    }


RetrieverVariants = Annotated[dict[str, RetrieverTarget], WrapValidator(_expand)]


def retriever_json_schema(ref_template: str) -> dict[str, Any]:
    """JSON Schema of a target as it is written, with its `$defs`."""
    schema = TypeAdapter(RetrieverTarget).json_schema(by_alias=True, ref_template=ref_template)
    for definition in schema["$defs"].values():
        for name, field in definition["properties"].items() if "topK" in definition["properties"] else ():
            if name not in ("builtin", "http", "python"):
                definition["properties"][name] = {"anyOf": [field, {"type": "array", "items": field, "minItems": 1}]}
    return schema
