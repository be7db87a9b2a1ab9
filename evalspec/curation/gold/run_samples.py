"""A sample of a stored run as the draft of a triple."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from msgspec import Struct

from evalspec.base.errors import InvalidInput, Problem
from evalspec.base.registry import near_miss
from evalspec.curation.gold.samples import find_origin, list_authors, make_blocks
from evalspec.inputs.datasets.base import list_relevant
from evalspec.inputs.manifest.redaction import has_placeholders
from evalspec.model import AgentReply, Sample
from evalspec.runs.store.run_store import STORE, RunStore
from evalspec.runs.store.stored_run import StoredRun, open_run

FROM_RUN = "from_run"
"""The metadata key for run, dataset and sample that a triple was made from."""


class RunSample(Struct, frozen=True):
    """A sample of a run. `content`: the triple as far as the run determines it. `authors`: who wrote the sample.

    `candidates`: the retrieved ids, best first, if no relevant document is known and there are several.
    """

    content: Mapping[str, Any]
    candidates: tuple[str, ...] = ()
    authors: Sequence[str] = ()


def read_run_sample(run: str, sample: str, store: Path = STORE) -> RunSample:
    """Return the draft of a triple from a sample of a stored run.

    The block is the relevant document of the sample, or the retrieved one if nothing is known to be relevant. The
    answer is the reference of the sample. Without one, it is the agent's answer, and `generated_by` names the run.
    Source, customer and `generated_by` of the sample are kept.

    `run`: an id, label or `latest`. `sample`: an id, or `DATASET/ID` if several datasets have it. `store`: the folder
    `.evalspec`.

    Raises:
        InvalidInput: There is no such run or sample, or the run keeps no texts.
        StoreError: The run cannot be read.
    """
    stored = open_run(RunStore(store).find(run))
    if not stored.outline.has_texts:
        raise InvalidInput(Problem(f"run {stored.id} keeps no texts", "choose a run with texts"))
    dataset, found = _find_sample(stored, sample)
    reply = _find_reply(stored, dataset, found)
    content: dict[str, Any] = {"question": found.question}
    metadata = find_origin(found.metadata) | {FROM_RUN: f"{stored.id} {dataset}/{found.id}"}
    if found.reference is not None:
        content["expected_answer"] = found.reference
    elif reply is not None and reply.response.strip():
        content["expected_answer"] = reply.response
        metadata["generated_by"] = f"agent of run {stored.id}"
    blocks, candidates = _find_blocks(found, reply)
    if blocks:
        content["expected_block"] = blocks
    if any(has_placeholders(str(content.get(key, "")).encode()) for key in ("question", "expected_answer")):
        raise InvalidInput(Problem(f"the text of '{found.id}' has a redacted secret", "write the triple by hand"))
    return RunSample({**content, "metadata": metadata}, candidates, list_authors(found.metadata))


def _find_sample(stored: StoredRun, name: str) -> tuple[str, Sample]:
    samples = list(stored.read_samples())
    fitting = [(dataset, one) for dataset, one in samples if f"{dataset}/{one.id}" == name]
    fitting = fitting or [(dataset, one) for dataset, one in samples if one.id == name]
    if len(fitting) == 1:
        return fitting[0]
    if fitting:
        fix = " or ".join(f"{dataset}/{name}" for dataset, _ in fitting)
        raise InvalidInput(Problem(f"{len(fitting)} datasets of the run have a sample '{name}'", f"name {fix}"))
    names = [one.id for _, one in samples]
    raise InvalidInput(Problem(f"run {stored.id} has no sample '{name}'", near_miss(name, names)))


def _find_reply(stored: StoredRun, dataset: str, sample: Sample) -> AgentReply | None:
    """Return the first reply to a sample, None if every attempt failed."""
    exchanges = stored.read_index().read_exchanges(iter([(dataset, sample)]), stored.outline.repeats)
    return next((one.exchange.reply for one in exchanges if one.exchange.reply is not None), None)


def _find_blocks(sample: Sample, reply: AgentReply | None) -> tuple[Any, tuple[str, ...]]:
    """Return the relevant blocks of a sample, else the only retrieved one, else nothing and what to choose from."""
    relevant = make_blocks(sample.groups, list_relevant(sample))
    if relevant:
        return relevant, ()
    retrieved = tuple(dict.fromkeys((reply.retrieved_context_ids if reply else None) or ()))
    return ({"block_id": retrieved[0]}, ()) if len(retrieved) == 1 else (None, retrieved)
