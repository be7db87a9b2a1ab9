"""Examples of answers for the OpenAPI document, made of records, so that they always have every field."""

import msgspec
from msgspec import structs

from evalspec.model import DatasetResult, Run, SampleResult, SampleStatus, Score, Summary, VerdictStatus
from evalspec.model.base import built
from evalspec.model.fingerprints import CiBuild
from evalspec.model.listed_runs import DatasetRow, RunEntry, RunKind, RunOrigin, RunStatus, list_value
from evalspec.service.run_records import RunHead, WholeRun

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
SAMPLE = SampleResult(
    id="refund",
    line=1,
    tags=("policy",),
    status=SampleStatus.ANSWERED,
    latency_ms=412.5,
    scores={"exact_match": Score.scored(1.0)},
)

LISTED_RUN = RunEntry(
    RUN_ID,
    RunStatus.FINISHED,
    MOMENT,
    verdict="PASS",
    partial=False,
    manifest="agent.yaml",
    kind=RunKind.AGENT,
    labels=("main",),
    origin=RunOrigin(
        CiBuild(
            service="GitHub Actions",
            branch="main",
            commit="2f0c1c5e",
            url="https://github.com/example/bot/actions/runs/1",
        ),
        "ci@example.com",
        MOMENT,
    ),
    datasets=(DatasetRow("qa", 4, {"exact_match": list_value(_SUMMARY, "5f2b6a90c1d47e38")}),),
)
WHOLE_RUN = WholeRun(
    **structs.asdict(LISTED_RUN),
    job_id="run_0123456789ab",
    result=msgspec.json.decode(msgspec.json.encode(_RUN), type=built(RunHead)),
)
