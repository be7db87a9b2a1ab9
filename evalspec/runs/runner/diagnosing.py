"""Diagnose why the rankings of a stored run miss relevant documents."""

from collections import defaultdict

from msgspec.structs import replace

from evalspec.model import DatasetResult, Diagnosis, Exchange, Run
from evalspec.runs.store.stored_run import StoredRun
from evalspec.scoring.ranking.diagnosis import compute_diagnosis


def diagnose(run: Run, stored: StoredRun) -> Run:
    """Return the run with a diagnosis of each dataset that has a retriever, from the rankings of the first attempts.

    A run without texts has no rankings, so it is returned unchanged.

    Raises:
        StoreError: The run cannot be read.
    """
    asked = {dataset.name for dataset in run.datasets if dataset.retriever is not None}
    if not asked or not stored.outline.has_texts:
        return run
    exchanges: dict[str, list[Exchange]] = defaultdict(list)
    for stored_exchange in stored.read_exchanges():
        if stored_exchange.dataset in asked and stored_exchange.attempt == 1:
            exchanges[stored_exchange.dataset].append(stored_exchange.exchange)
    datasets = (replace(one, diagnosis=_diagnose(one, exchanges[one.name])) for one in run.datasets)
    return replace(run, datasets=tuple(datasets))


def _diagnose(dataset: DatasetResult, exchanges: list[Exchange]) -> Diagnosis | None:
    settings = dataset.retriever
    if settings is None:
        return None
    samples = [exchange.sample for exchange in exchanges]
    replies = {exchange.sample.id: exchange.reply for exchange in exchanges if exchange.reply is not None}
    return compute_diagnosis(
        {sample.id: sample.qrels for sample in samples if sample.qrels is not None},
        {name: reply.retrieved_context_ids or () for name, reply in replies.items()},
        {name: reply.deep_ids for name, reply in replies.items() if reply.deep_ids is not None},
        settings.top_k,
        depth=max(settings.depth, settings.top_k),
        min_grade=settings.min_grade,
        groups={sample.id: sample.groups for sample in samples if sample.groups is not None},
    )
