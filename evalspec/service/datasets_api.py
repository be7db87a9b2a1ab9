"""Routes of the datasets that evaluations of retrievers use."""

from http import HTTPStatus
from typing import Annotated, Any

import msgspec
from fastapi import APIRouter, Query, Response
from pydantic import BaseModel, Field

from evalspec.service.access import Pushing, Reading
from evalspec.service.answers import render_answer
from evalspec.service.bounds import Version
from evalspec.service.documents import body_config, show_example
from evalspec.service.examples import DATASET, MOMENT
from evalspec.service.json_bodies import JsonRoute
from evalspec.service.posted_datasets import (
    PostedDataset,
    find_summary,
    list_datasets,
    list_versions,
    post_dataset,
    read_dataset,
)

ROUTER = APIRouter(prefix="/v1/retrievers/evaluations/datasets", tags=["evaluations"], route_class=JsonRoute)

_QUERY: dict[str, Any] = {
    "query_id": "q1",
    "query_input": {"query": "wireless earbuds"},
    "relevant_documents": ["doc_a1", "doc_a2"],
    "relevance_scores": {"doc_a1": 5, "doc_a2": 3},
}
_POST: dict[str, Any] = {
    "dataset_name": DATASET,
    "queries": [_QUERY],
    "description": "Searches of customers, judged by hand.",
}
_VERSION: dict[str, Any] = {
    "dataset_id": "ds_495642cf31ee",
    "dataset_name": DATASET,
    "version": 1,
    "query_count": 1,
    "created_at": MOMENT,
}
_FEW = "only 1 queries: differences between retrievers will rarely exceed noise. aim for 50 or more"


class QueryShape(BaseModel):
    """One query, as documentation: the reader of the format checks it."""

    model_config = show_example(_QUERY)
    query_id: str
    query_input: dict[str, Any] = Field(description="What the retriever is asked.")
    relevant_documents: list[str] = Field(min_length=1, description="Ids of documents.")
    relevance_scores: dict[str, int] | None = Field(None, description="0 to 5 for each relevant document.")


Queries = Annotated[list[Any], Field(min_length=1, json_schema_extra={"items": QueryShape.model_json_schema()})]


class DatasetPost(BaseModel):
    """A dataset: queries with the documents that a retriever should return."""

    model_config = body_config(_POST)
    dataset_name: str = Field(min_length=1)
    queries: Queries
    description: str | None = None
    metadata: dict[str, Any] | None = None


class DatasetVersion(BaseModel):
    """One version of a dataset."""

    dataset_id: str
    dataset_name: str
    version: int
    query_count: int
    created_at: str


class DatasetPosted(DatasetVersion):
    """A dataset after a post."""

    model_config = show_example({**_VERSION, "warnings": [_FEW]})
    warnings: list[str] = Field([], description="What its author should know.")


class DatasetDocument(DatasetVersion):
    """A version of a dataset with its queries, as they were posted."""

    model_config = show_example({**_VERSION, "versions": [1], **_POST})
    versions: list[int] = Field(description="Every version, oldest first.")
    queries: Queries
    description: str | None = None
    metadata: dict[str, Any] | None = None


class DatasetList(BaseModel):
    """The newest version of each dataset, by name."""

    model_config = show_example({"datasets": [_VERSION]})
    datasets: list[DatasetVersion]


@ROUTER.post(
    "",
    status_code=HTTPStatus.CREATED,
    responses={200: {"model": DatasetPosted, "description": "The newest version is equal."}},
    summary="Post a dataset",
)
def create_dataset(asked: DatasetPost, response: Response, access: Pushing) -> DatasetPosted:
    """Store a dataset. Changed content becomes the next version; equal content changes nothing."""
    content = asked.model_dump(exclude={"dataset_name"}, exclude_none=True)
    posted: PostedDataset = post_dataset(access.project, asked.dataset_name, content)
    if not posted.is_new:
        response.status_code = HTTPStatus.OK
    return DatasetPosted(**msgspec.structs.asdict(posted.summary), warnings=list(posted.warnings))


@ROUTER.get("", summary="List datasets")
def get_datasets(access: Reading) -> DatasetList:
    """Return the newest version of each dataset of the namespace, without queries."""
    found = list_datasets(access.project)
    return DatasetList(datasets=[DatasetVersion(**msgspec.structs.asdict(one)) for one in found])


@ROUTER.get("/{dataset_name}", response_model=DatasetDocument, summary="Show a dataset")
def get_dataset(
    dataset_name: str,
    access: Reading,
    version: Annotated[Version | None, Query(description="Default: the newest.")] = None,
) -> Response:
    """Return a dataset with its queries, as they were posted."""
    summary = find_summary(access.project, dataset_name, version)
    document = read_dataset(access.project, dataset_name, summary.version)
    versions = list_versions(access.project, dataset_name)
    return render_answer({**msgspec.structs.asdict(summary), "versions": versions, **document})
