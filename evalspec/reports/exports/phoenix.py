"""Phoenix: annotations of the spans of attempts, with label, score, explanation and who gave them."""

from collections import Counter
from collections.abc import Iterator, Sequence
from functools import partial
from http import HTTPStatus
from importlib import import_module
from typing import Any

import httpx

from evalspec.base.errors import ServiceError
from evalspec.base.foreign_text import encodable
from evalspec.inputs.manifest.export_schema import ExportConfig
from evalspec.model import Run, ScoreStatus
from evalspec.reports.base import StoredExchanges
from evalspec.reports.exports.base import ExportedScore, Exporter, describe_sent, iterate_batches, iterate_scores
from evalspec.reports.exports.connecting import connect
from evalspec.targets.http.failures import explain_failure, explain_status, shown_url
from evalspec.targets.http.pacing import persist

_AT_ONCE = 200
_RETRIES = 3
_WITHOUT, _UNKNOWN = "without a span", "whose span it does not have"

Annotation = dict[str, Any]


async def send_annotations(run: Run, exchanges: StoredExchanges, to: ExportConfig) -> str:
    """Annotate the spans that Phoenix has. A later export of the run replaces its annotations."""
    counts: Counter[str] = Counter()
    async with connect("phoenix", to) as connection:
        connection.client.base_url, connection.client.timeout = httpx.URL(to.url), httpx.Timeout(to.timeout_seconds)
        spans = import_module("phoenix.client").AsyncClient(http_client=connection.client).spans

        async def post(batch: Sequence[Annotation]) -> str:
            """Send annotations, and return the answer of Phoenix if it does not have some of the spans."""
            try:
                await spans.log_span_annotations(span_annotations=batch, sync=True)
            except httpx.HTTPStatusError as error:
                said = error.response.text
                if error.response.status_code == HTTPStatus.NOT_FOUND and any(one["span_id"] in said for one in batch):
                    return said
                raise explain_status(error.response, said, connection.service) from None
            except (httpx.HTTPError, OSError) as error:
                raise explain_failure(error, to.url, to.timeout_seconds, connection.service) from None
            return ""

        for batch in iterate_batches(_list_annotations(run, exchanges, counts), _AT_ONCE):
            left = batch
            while left and (missing := await persist(partial(post, left), _RETRIES)):
                counts.update({_UNKNOWN: sum(one["span_id"] in missing for one in left)})
                counts.subtract(one["metadata"]["status"] for one in left if one["span_id"] in missing)
                left = [one for one in left if one["span_id"] not in missing]
    if counts[_WITHOUT] + counts[_UNKNOWN] and not counts[ScoreStatus.SCORED] + counts[ScoreStatus.FAILED]:
        raise ServiceError("no attempt of the run has a span in Phoenix, so there is nothing to annotate")
    return f"{describe_sent(counts)} to {shown_url(to.url)}"


def _list_annotations(run: Run, exchanges: StoredExchanges, counts: Counter[str]) -> Iterator[Annotation]:
    for one in iterate_scores(run, exchanges, counts):
        if one.span is None:
            counts.subtract([one.score.status])
            counts[_WITHOUT] += 1
        else:
            yield _annotate(run, one, one.span[1])


def _annotate(run: Run, one: ExportedScore, span_id: str) -> Annotation:
    dataset, score = one.row.dataset.name, one.score
    known = run.fingerprint.find_dataset(dataset)
    is_judged = known is not None and "judge" in known.metric_identities.get(one.metric, {})
    label = one.label if score.status is ScoreStatus.SCORED else "not measured"
    result = {"label": label, "score": score.value, "explanation": score.reason}
    told = {"status": score.status, "cause": score.cause, "dataset": dataset, "sample": one.row.sample.id}
    return {
        "name": encodable(one.metric),
        "span_id": span_id,
        "annotator_kind": "LLM" if is_judged else "CODE",
        "result": _known(result),
        "metadata": _known(told | {"attempt": one.attempt, "run": run.id}),
        "identifier": run.id,
    }


def _known(values: dict[str, Any]) -> dict[str, Any]:
    return {
        key: encodable(value) if isinstance(value, str) else value for key, value in values.items() if value is not None
    }


PHOENIX = Exporter("phoenix", send_annotations, imports=("phoenix.client",), extra="phoenix")
