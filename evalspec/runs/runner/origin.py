"""What a reply belongs to: the question of its sample, and the request that was sent.

Requests are described as the manifest has them. Files and public variables are filled in, so that their changes are
seen. Secrets are not, so that a new token changes nothing.
"""

from contextlib import suppress
from typing import Any

from msgspec import to_builtins
from msgspec.structs import replace

from evalspec.inputs.manifest.agent_schema import ChatEndpoint
from evalspec.inputs.manifest.references import References, UnresolvedReference, is_public
from evalspec.model import Exchange, Sample, SampleStatus
from evalspec.model.exchanges import compute_question_digest, compute_request_digest
from evalspec.model.fingerprints import ReplyCounts
from evalspec.runs.planning.build import Plan
from evalspec.runs.planning.draft import PlannedDataset, PlannedRetriever
from evalspec.runs.store.log_index import AttemptKey, LogIndex
from evalspec.targets.agents.wire import build_request


class Origin:
    """Computes the digests of what a plan asks."""

    def __init__(self, plan: Plan) -> None:
        api = plan.loaded.manifest.spec.api
        is_asked = plan.agent is None and api.python is None
        self._endpoint = _fill_endpoint(api.chat_endpoint, plan.loaded.references) if is_asked else None

    def mark(self, exchange: Exchange, dataset: PlannedDataset) -> Exchange:
        """Return an exchange with the digests of what was asked just now."""
        sample = exchange.sample
        request = self.digest_request(dataset, sample)
        return replace(exchange, question_digest=compute_question_digest(sample), request_digest=request)

    def digest_request(self, dataset: PlannedDataset, sample: Sample) -> str | None:
        """Return the digest of the request for a sample. None if there is none: the agent is Python code."""
        if dataset.retriever is not None:
            return compute_request_digest(_describe_query(dataset.retriever, sample))
        if self._endpoint is None:
            return None
        try:
            body = build_request(sample, self._endpoint)
        except Exception:  # also of a plugin's wire; asking the agent reports it
            return None
        method = [] if self._endpoint.method == "POST" else [self._endpoint.method]
        return compute_request_digest([self._endpoint.protocol, self._endpoint.path, body, *method])


def _fill_endpoint(endpoint: ChatEndpoint, references: References) -> ChatEndpoint:
    said = endpoint.model_dump(by_alias=True, exclude_unset=True, exclude={"headers", "auth"})
    return ChatEndpoint.model_validate(_fill(said, references))


def _fill(value: Any, references: References) -> Any:
    if isinstance(value, str) and (value.startswith("$file:") or is_public(value)):
        with suppress(UnresolvedReference):
            return references.redact(references.resolve(value))
    if isinstance(value, dict):
        return {key: _fill(item, references) for key, item in value.items()}
    return [_fill(item, references) for item in value] if isinstance(value, list) else value


def _describe_query(retriever: PlannedRetriever, sample: Sample) -> Any:
    asked = retriever.query_settings
    settings = {**to_builtins(asked.settings), "origins": None}
    own = asked.overrides.get(sample.id)
    return [settings, dict(asked.filters), to_builtins(own), to_builtins(asked.find_input(sample).fields)]


def compare_origin(index: LogIndex, plan: Plan) -> tuple[set[tuple[str, str]], ReplyCounts]:
    """Compare what the stored replies of a run answer with what a plan asks.

    Return the samples (dataset, id) whose question is another one now, and how many replies do not say which question
    they answer, or answer another request. A ranking without a question belongs to the id of its query.
    """
    origin, edited, unchecked, other_requests = Origin(plan), set(), 0, 0
    for dataset in plan.datasets:
        for sample in dataset.samples:
            question, request = compute_question_digest(sample), origin.digest_request(dataset, sample)
            for number in range(1, plan.options.repeat + 1):
                stored = index.attempts.get(AttemptKey(dataset.name, sample.id, number))
                if stored is None:
                    continue
                attempt = stored.attempt
                if attempt.question_digest is None:
                    unchecked += attempt.status is SampleStatus.ANSWERED and not stored.has_trace
                elif attempt.question_digest != question:
                    edited.add((dataset.name, sample.id))
                elif request is not None and attempt.request_digest is not None:
                    other_requests += attempt.request_digest != request
    return edited, ReplyCounts(unchecked, other_requests)
