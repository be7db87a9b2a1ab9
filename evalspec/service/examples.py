"""Examples of answers for the OpenAPI document, made of records, so that they always have every field."""

from typing import Any

import msgspec

from evalspec.model import Curation, DatasetResult, Run, SampleResult, SampleStatus, Score, Summary, VerdictStatus
from evalspec.model.base import built
from evalspec.service.answers import describe
from evalspec.service.run_heads import RunHead

RUN_ID = "20261121T061500.000Z-0123456789ab"
MOMENT = "2026-11-21T06:15:00.000+00:00"
EVALUATION_ID = "eval_0123456789ab"
RETRIEVER = "product_search"
DATASET = "product-search-golden"

_SUMMARY = Summary(value=0.75, scored=4, interval=(0.25, 0.97), interval_method="bounded", units=4, bounds=(0.0, 1.0))
_RUN = Run(
    id=RUN_ID,
    verdict=VerdictStatus.PASS,
    datasets=(DatasetResult(name="qa", file="qa.jsonl", selected=4, metrics={"exact_match": _SUMMARY}, samples=()),),
)
_SAMPLE = SampleResult(
    id="refund",
    line=1,
    tags=("policy",),
    status=SampleStatus.ANSWERED,
    latency_ms=412.5,
    scores={"exact_match": Score.scored(1.0)},
)

RUN_RESULT: dict[str, Any] = describe(
    msgspec.json.decode(msgspec.json.encode(_RUN), type=built(RunHead)), ("id", "schema_version")
)
SAMPLE: dict[str, Any] = describe(_SAMPLE, ("attempts",))
CURATION: dict[str, Any] = describe(Curation(name="help"))
