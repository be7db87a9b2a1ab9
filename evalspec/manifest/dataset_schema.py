"""The section of a manifest about one dataset: its files, its metrics, and how it queries a retriever."""

from typing import Annotated, Any, Literal

from pydantic import Field, StrictStr

from evalspec.manifest.fields import Mode, ModuleObject, Name, Positive
from evalspec.manifest.metric_schema import WithThresholds


class DatasetConfig(WithThresholds):
    """One dataset. Its metrics replace the evaluation's, and its thresholds take precedence over the evaluation's."""

    name: Name
    path: Name
    format: Name | None = Field(None, description="The file's format. Default: detected from the content.")
    fields: dict[StrictStr, Name] = Field(
        default_factory=dict,
        description="The column of each field, for files of records: a name, a dotted path, or a JSONPath query.",
    )
    corpus: Name | None = Field(None, description="The file of documents, for formats that have one.")
    k: Annotated[list[Positive], Field(min_length=1)] | None = Field(
        None, description="Cut-offs of retrieval metrics that are named without @k."
    )
    min_grade: Positive = Field(1, description="The lowest grade that counts as relevant.")
    compat: Name | None = Field(
        None, description="Compute retrieval metrics with this system's formulas instead of trec_eval's."
    )
    retrieval_gt_1d: Literal["and", "or"] | None = Field(
        None,
        alias="retrievalGt1d",
        description="AutoRAG: whether a flat list of ids means all of them, or any.",
    )
    empty_qrels: Literal["notApplicable", "zero"] = Field(
        "notApplicable", description="How a query without relevant documents counts in the mean of a retrieval metric."
    )
    slices: list[Name] | None = Field(
        None,
        description="Metadata keys (or `tags`) to break results down by. Default: tags and every key with few values. "
        "Empty list: none.",
    )
    retriever: Name | None = Field(
        None, description="Query this retriever (a name in `retrievers`) instead of the agent; see --retriever."
    )
    mode: Mode | None = Field(None, description="Whether the retriever also reranks its hits.")
    top_k: Positive | None = Field(None, description="Number of distinct documents that the retriever returns.")
    rerank_top_k: Positive | None = Field(None, description="Number of documents to rerank. Default: 3 x topK.")
    scope_prefix: Name | None = Field(
        None, description="Prefix of the scope to ingest, search and delete documents in, such as eval:my-dataset:"
    )
    filters: dict[StrictStr, Any] = Field(
        default_factory=dict, description="Filters of every search, in the retriever's own syntax."
    )
    loader: ModuleObject | None = Field(
        None, description="module:function that takes a document's loaderRef and returns its text."
    )
    cluster: Name | None = Field(
        None,
        description="Metadata key that groups samples (one document, one conversation). Intervals and tests then treat "
        "clusters, not samples, as independent.",
    )
