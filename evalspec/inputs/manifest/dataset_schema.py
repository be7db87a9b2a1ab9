"""The section of a manifest about one dataset: its files, its metrics, and how it queries a retriever."""

from typing import Annotated, Any

from pydantic import Field, StrictStr

from evalspec.inputs.manifest.fields import ModuleObject, Name, Positive
from evalspec.inputs.manifest.metric_schema import WithThresholds
from evalspec.model.conventions import EmptyQrels, FlatIds
from evalspec.model.fingerprints import RetrieverMode


class DatasetConfig(WithThresholds):
    """One dataset. Its metrics replace the evaluation's, and its thresholds take precedence over the evaluation's."""

    name: Name = Field(description="Unique name, for --dataset and in reports.", examples=["core"])
    path: Name = Field(
        description="File or folder of the samples, relative to the manifest, with or without `$file:`.",
        examples=["evals/core.jsonl"],
    )
    format: Name | None = Field(
        None, description="How the file is written, such as jsonl, csv or records. Default: detected from the content."
    )
    fields: dict[StrictStr, Name] = Field(
        default_factory=dict,
        description="The column of each field, for files of records: a name, a dotted path, or a JSONPath query.",
    )
    corpus: Name | None = Field(
        None,
        description="File of the documents: that of the format or, for a format without one, JSONL or TSV with `id`, "
        "`text` and an optional `title`.",
    )
    k: Annotated[list[Positive], Field(min_length=1)] | None = Field(
        None, description="Cut-offs at which to compute each retrieval metric that is named without @k."
    )
    min_grade: Positive = Field(1, description="The lowest grade that counts as relevant.")
    compat: Name | None = Field(
        None, description="Compute retrieval metrics with this system's formulas instead of trec_eval's."
    )
    retrieval_gt_1d: FlatIds | None = Field(
        None,
        alias="retrievalGt1d",
        description="AutoRAG: whether a flat list of ids means all of them, or any. Default: a list of several is an "
        "error, unless `compat` says what it means.",
    )
    empty_qrels: EmptyQrels = Field(
        EmptyQrels.NOT_APPLICABLE,
        description="Whether a query without relevant documents is left out of the mean of a retrieval metric, or "
        "counts as 0.",
    )
    slices: list[Name] | None = Field(
        None,
        description="Metadata keys, or `tags`, to break results down by. Default: tags and keys with 2 to 20 plain "
        "values; empty list: none.",
    )
    retriever: Name | None = Field(
        None, description="Query this entry of `retrievers` instead of the agent; --retriever overrides it."
    )
    mode: RetrieverMode | None = Field(
        None,
        description="Whether hits are reranked; --mode overrides it. Default: as in the dataset's file, else retrieve.",
    )
    top_k: Positive | None = Field(
        None,
        description="Number of distinct documents to rank; the retriever and --top-k override it. Default: the larger "
        "of the file's and the largest cut-off, else 10.",
    )
    rerank_top_k: Positive | None = Field(
        None,
        description="Number of documents to rerank, at least topK; the retriever and --rerank-top-k override it. "
        "Default: as in the dataset's file, else 3 x topK.",
    )
    scope_prefix: Name | None = Field(
        None,
        description="Prefix under which documents are ingested, searched and deleted. Default: as in the dataset's "
        "file, else eval:NAME: if documents are ingested.",
    )
    filters: dict[StrictStr, Any] = Field(
        default_factory=dict,
        description="Passed unchanged to each search. An error for built-in retrievers, and for a service whose "
        "search has no {{filters}}.",
    )
    loader: ModuleObject | None = Field(
        None, description="module:function that takes a document's loaderRef and returns its text."
    )
    cluster: Name | None = Field(
        None,
        description="Metadata key that groups samples (one document, one conversation). Intervals and tests then "
        "treat clusters, not samples, as independent.",
    )
