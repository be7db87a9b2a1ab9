"""Phoenix: annotations of the spans of attempts, with label, score, explanation and who gave them."""

from collections import Counter
from collections.abc import Iterator
from functools import partial
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
_WITHOUT = "without a span"


async def send_annotations(run: Run, exchanges: StoredExchanges, to: ExportConfig) -> str:
    """Annotate spans that Phoenix has. Annotations of the same run replace each other."""
    counts: Counter[str] = Counter()
    async with connect("phoenix", to) as connection:
        connection.client.base_url, connection.client.timeout = httpx.URL(to.url), httpx.Timeout(to.timeout_seconds)
        spans = import_module("phoenix.client").AsyncClient(http_client=connection.client).spans

        async def post(batch: list[dict[str, Any]]) -> None:
            try:
                await spans.log_span_annotations(span_annotations=batch, sync=True)
            except httpx.HTTPStatusError as error:
                raise explain_status(error.response, error.response.text, connection.service) from None
            except httpx.HTTPError as error:
                raise explain_failure(error, to.url, to.timeout_seconds, connection.service) from None

        for batch in iterate_batches(_list_annotations(run, exchanges, counts), _AT_ONCE):
            await persist(partial(post, batch), _RETRIES)
    if counts[_WITHOUT] and not counts[ScoreStatus.SCORED] + counts[ScoreStatus.FAILED]:
        raise ServiceError("no attempt of the run has a span, and Phoenix annotates spans")
    return f"{describe_sent(counts)} to {shown_url(to.url)}"


def _list_annotations(run: Run, exchanges: StoredExchanges, counts: Counter[str]) -> Iterator[dict[str, Any]]:
    for one in iterate_scores(run, exchanges, counts):
        if one.span is None:
            counts[one.score.status] -= 1
            counts[_WITHOUT] += 1
        else:
            yield _annotate(run, one, one.span[1])


def _annotate(run: Run, one: ExportedScore, span_id: str) -> dict[str, Any]:
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
