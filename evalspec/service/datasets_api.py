"""Routes of the datasets that evaluations of retrievers use."""

from http import HTTPStatus
from typing import Annotated, Any

import msgspec
from fastapi import APIRouter, Depends, Query, Response
from pydantic import BaseModel, ConfigDict, Field

from evalspec.service.access import Access, permits
from evalspec.service.json_bodies import JsonRoute
from evalspec.service.posted_datasets import (
    PostedDataset,
    find_summary,
    list_datasets,
    list_versions,
    post_dataset,
    read_dataset,
)
from evalspec.service.tokens import Scope

ROUTER = APIRouter(prefix="/v1/retrievers/evaluations/datasets", tags=["evaluations"], route_class=JsonRoute)


class QueryShape(BaseModel):
    """One query, as documentation: the reader of the format checks it."""

    query_id: str
    query_input: dict[str, Any] = Field(examples=[{"query": "wireless earbuds"}])
    relevant_documents: list[str] = Field(min_length=1, examples=[["doc_a1", "doc_a2"]])
    relevance_scores: dict[str, int] | None = Field(
        None, description="0 to 5 for each relevant document.", examples=[{"doc_a1": 5, "doc_a2": 3}]
    )


class DatasetPost(BaseModel):
    """A dataset: queries with the documents that a retriever should return."""

    model_config = ConfigDict(extra="forbid", strict=True)
    dataset_name: str = Field(min_length=1, examples=["product-search-golden"])
    queries: list[Any] = Field(min_length=1, json_schema_extra={"items": QueryShape.model_json_schema()})
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

    warnings: list[str] = []


class DatasetList(BaseModel):
    """The newest version of each dataset, by name."""

    datasets: list[DatasetVersion]


@ROUTER.post("", status_code=HTTPStatus.CREATED, responses={200: {"description": "The newest version is equal."}})
def create_dataset(
    asked: DatasetPost, response: Response, access: Annotated[Access, Depends(permits(Scope.PUSH, Scope.RUN))]
) -> DatasetPosted:
    """Store a dataset. Changed content becomes the next version; equal content changes nothing."""
    content = asked.model_dump(exclude={"dataset_name"}, exclude_none=True)
    posted: PostedDataset = post_dataset(access.project, asked.dataset_name, content)
    if not posted.is_new:
        response.status_code = HTTPStatus.OK
    return DatasetPosted(**msgspec.structs.asdict(posted.summary), warnings=list(posted.warnings))


@ROUTER.get("")
def get_datasets(access: Annotated[Access, Depends(permits(Scope.READ))]) -> DatasetList:
    """List the datasets of the namespace."""
    found = list_datasets(access.project)
    return DatasetList(datasets=[DatasetVersion(**msgspec.structs.asdict(one)) for one in found])


@ROUTER.get("/{dataset_name}")
def get_dataset(
    dataset_name: str,
    access: Annotated[Access, Depends(permits(Scope.READ))],
    version: Annotated[int | None, Query(ge=1, description="Default: the newest.")] = None,
) -> dict[str, Any]:
    """Return a dataset with its queries, as they were posted."""
    summary = find_summary(access.project, dataset_name, version)
    document = read_dataset(access.project, dataset_name, summary.version)
    versions = list_versions(access.project, dataset_name)
    return {**msgspec.structs.asdict(summary), "versions": versions, **document}
