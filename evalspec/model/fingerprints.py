"""The fingerprint of a run: what was asked, of whom, and with what it was measured.

It is stored in run.json, is part of reports and baselines, and decides what may be resumed, reused and compared. Values
that may be redacted, or are too large to store, have a digest.
"""

from collections.abc import Mapping
from enum import StrEnum
from typing import Annotated, Any

from msgspec import Meta, Struct

from evalspec.model.base import Record
from evalspec.model.conventions import EmptyQrels
from evalspec.model.corrections import Drift, JudgeDrift
from evalspec.model.exchanges import SIMULATED_USER
from evalspec.model.shards import Shard
from evalspec.model.usage import JudgePrice, JudgeUsage
from evalspec.model.verdicts import BaselineOrigin

Digests = Mapping[str, str]


class ManifestDigest(Record, frozen=True, omit_defaults=True):
    """The manifest. `fields`: a short digest of each field that is given, by path."""

    path: str = ""
    sha256: str | None = None
    fields: Digests = {}


class AgentDigest(Record, frozen=True, omit_defaults=True):
    """The agent, and the code that is known of it.

    `function`: of an agent in this process. `code_sha256`: of that function or of the files that the command names.
    `git_sha256`: of the files that git knows; `git_newest`: those that were changed last. `reused_url`: the agent ran
    already, so the command was not started.
    """

    name: str | None = None
    version: str | None = None
    url: str | None = None
    sha256: str | None = None
    function: str | None = None
    code_sha256: str | None = None
    git_sha256: str | None = None
    git_newest: tuple[str, ...] = ()
    endpoint_sha256: str | None = None
    reused_url: str | None = None


class PartDigest(Record, frozen=True, omit_defaults=True):
    """The part of a gold set that was used: a slice with what is missing of it by cause, or the held-out share.

    `uses_before`: of the held-out share.
    """

    slice: str | None = None
    drawn: int = 0
    missing: Mapping[str, int] = {}
    held_out: bool = False
    uses_before: int | None = None


class DatasetDigest(Record, frozen=True, omit_defaults=True):
    """A dataset with the selected samples. `metric_identities`: what each metric depends on, by part."""

    name: str
    file: str | None = None
    sha256: str | None = None
    available: int = 0
    selected: int = 0
    selection_sha256: str | None = None
    samples_sha256: str | None = None
    metrics: tuple[str, ...] = ()
    metric_identities: Mapping[str, Mapping[str, Any]] = {}
    part: PartDigest | None = None


class RetrieverMode(StrEnum):
    """Whether the hits of a retriever are reranked."""

    RETRIEVE = "retrieve"
    RERANK = "retrieve+rerank"


class Cleanup(StrEnum):
    """When to delete the documents after the queries."""

    NONE = "none"
    ON_SUCCESS = "on-success"
    ALWAYS = "always"


class SelectionDigest(Record, frozen=True, omit_defaults=True):
    """The options that select samples and retrievers."""

    datasets: tuple[str, ...] = ()
    sample_size: int | None = None
    seed: int = 0
    tags: tuple[str, ...] = ()
    exclude_tags: tuple[str, ...] = ()
    where: tuple[str, ...] = ()
    stratify: tuple[str, ...] = ()
    slice: str | None = None
    held_out: bool = False
    retriever: str | None = None
    mode: RetrieverMode | None = None
    top_k: int | None = None
    rerank_top_k: int | None = None
    scope_prefix: str | None = None
    no_ingest: bool | None = None
    cleanup: Cleanup | None = None
    allow_custom_prefix: bool | None = None
    depth: int | None = None


class RetrieverDigest(Record, frozen=True, omit_defaults=True):
    """A retriever, by its name and the settings that affect rankings."""

    name: str
    settings: Mapping[str, Any] = {}


class JudgeDigest(Record, frozen=True, omit_defaults=True):
    """The judge's settings that affect verdicts, without its key. `panel`: further judges."""

    model: str
    base_url: str | None = None
    parameters: Mapping[str, Any] = {}
    wire: str = "chat"
    panel: tuple["JudgeDigest", ...] = ()
    combine: str = "mean"
    missing: str = "fail"


class RepliesFile(Record, frozen=True, omit_defaults=True):
    """The file of recorded replies."""

    path: str
    sha256: str | None = None


class ReplyCounts(Record, frozen=True, omit_defaults=True):
    """Replies from another time: recorded ones that do not say what was asked, and those of another request."""

    unchecked: int = 0
    other_requests: int = 0


class Repeats(Record, frozen=True):
    """Attempts per sample, and judge calls per reply."""

    agent: int = 1
    judge: int = 1


class PooledRun(Record, frozen=True):
    """A run whose attempts a baseline holds."""

    id: str
    attempts: Annotated[int, Meta(ge=1)] = 1
    started_at: str | None = None


class CiBuild(Struct, frozen=True, rename="camel", kw_only=True, omit_defaults=True):
    """The CI build that evaluated or pushed a run. None: the CI service does not say.

    `commit`: what was checked out, which for a pull request may be its merge commit. `pull_request`: its number, `?` if
    that is unknown. `url`: the page of the build.
    """

    service: str
    branch: str | None = None
    commit: str | None = None
    pull_request: str | None = None
    url: str | None = None


_Reference = Annotated[str, Meta(pattern="^(?:env|secret|literal):.")]
_SaltedDigest = Annotated[str, Meta(pattern="^[0-9a-f]{160}$")]


class ScoreDigest(Record, frozen=True):
    """What `evalspec score` measured: a run file against judgements."""

    qrels: str
    run: str
    min_grade: int
    empty_qrels: EmptyQrels


class Fingerprint(Record, frozen=True, omit_defaults=True):
    """What a run measured, and with what. A baseline has a part of it.

    `recorded`: no agent was asked. `shard`: the part of the run that this is; None: all of it.
    `judge_refused`: parameters that the judge's endpoint refused, with what it got instead.
    `judge_models`, `judge_system_fingerprints`: what the judge's replies state, by digest. `judge_cached_models`: those
    of cached results; `judge_cached`: since when these were asked, by metric.
    `judge_drifts`: whether the judge has changed since its calibration, by dataset and metric.
    `user`: the model that plays the users. `judge_price`, `user_price`: what the models cost; `limits`: options that
    limit what the run may use; `no_cache`, `fresh`: how the judge's cache is used. These change no
    measurement, except `user`.
    `baseline`: where the gate's baseline came from, if a server has it.
    `references`: a salted digest of each redacted value. Of baselines: `best_of`, the number of runs that this was the
    best of; `runs`, whose attempts it holds; `ci_gate`.
    """

    started_at: str | None = None
    manifest: ManifestDigest | None = None
    agent: AgentDigest | None = None
    responses: RepliesFile | None = None
    recorded: bool = False
    replies: ReplyCounts | None = None
    shard: Shard | None = None
    datasets: tuple[DatasetDigest, ...] = ()
    selection: SelectionDigest | None = None
    retrievers: Mapping[str, RetrieverDigest] = {}
    retrievers_sha256: str | None = None
    repeats: Repeats | None = None
    no_judge: bool = False
    no_content: bool = False
    no_cache: bool = False
    fresh: bool = False
    judge: JudgeDigest | None = None
    judge_sha256: str | None = None
    judge_refused: Mapping[str, str] = {}
    judge_models: Mapping[str, str] = {}
    judge_system_fingerprints: Mapping[str, str] = {}
    judge_cached_models: Mapping[str, str] = {}
    judge_cached: Mapping[str, str] = {}
    judge_drifts: Mapping[str, Mapping[str, JudgeDrift]] = {}
    judge_price: JudgePrice | None = None
    user: JudgeDigest | None = None
    user_price: JudgePrice | None = None
    limits: Mapping[str, float] = {}
    embeddings: Mapping[str, Any] | None = None
    embeddings_sha256: str | None = None
    versions: Mapping[str, str] = {}
    ci: CiBuild | None = None
    rescored_from: str | None = None
    score: ScoreDigest | None = None
    baseline_sha256: str | None = None
    baseline: BaselineOrigin | None = None
    references: Mapping[_Reference, _SaltedDigest] = {}
    best_of: int | None = None
    runs: tuple[PooledRun, ...] = ()
    ci_gate: Mapping[str, Any] | None = None

    def compute_costs(self, usage: Mapping[str, JudgeUsage]) -> dict[str, float | None]:
        """Return the cost of each usage, by metric; None if it is unknown. Empty without any price."""
        prices = {name: self.user_price if name == SIMULATED_USER else self.judge_price for name in usage}
        costs = {name: None if price is None else price.compute_cost(usage[name]) for name, price in prices.items()}
        return costs if any(prices.values()) else {}

    def find_dataset(self, name: str) -> DatasetDigest | None:
        """Return what is known of a dataset, or None."""
        return next((dataset for dataset in self.datasets if dataset.name == name), None)

    @property
    def attempts(self) -> int:
        """The number of attempts per sample."""
        return 1 if self.repeats is None else self.repeats.agent

    @property
    def agent_name(self) -> str | None:
        """The agent's name, None if it is unknown."""
        return None if self.agent is None else self.agent.name


class Description(Record, frozen=True):
    """What `run.json` says of a run, without its outline. `store_version`: the layout of the run's folder."""

    store_version: int
    fingerprint: Fingerprint


def digest_parts(identity: Mapping[str, Any]) -> dict[str, str]:
    """Return the digest of each part of a metric's identity, or the whole part if it has none.

    Labels before digests may be redacted in one of two runs.
    """
    return {part: str(value).rpartition("#")[2] for part, value in identity.items()}


def describe_part(fingerprint: Fingerprint) -> str | None:
    """Return the part of the gold sets that a run used: `slice 2026Q4` or `the held-out share`. None: all of them."""
    selection = fingerprint.selection
    if selection is None:
        return None
    if selection.held_out:
        return "the held-out share"
    return f"slice {selection.slice}" if selection.slice else None


def list_part_notes(fingerprint: Fingerprint) -> list[str]:
    """Return a note for each dataset of a run of a part: its size and cost, and the triples that are left out."""
    part = describe_part(fingerprint)
    if part is None:
        return []
    return [_describe_cost(part, dataset, fingerprint.attempts) for dataset in fingerprint.datasets]


def _describe_cost(part: str, dataset: DatasetDigest, repeats: int) -> str:
    selected, available = dataset.selected, dataset.available
    share = f": {100 * selected / available:.0f} % of the full set" if available else ""
    calls = f"{selected * repeats:,} of {available * repeats:,} requests{share}"
    said = f"{dataset.name}: {part}: {selected:,} of {available:,} triples, {calls}"
    details = dataset.part or PartDigest()
    if details.missing:
        causes = ", ".join(f"{count:,} {cause}" for cause, count in details.missing.items())
        said += f"; {sum(details.missing.values()):,} of the {details.drawn:,} drawn are left out: {causes}"
    if details.uses_before is not None:
        said += f"; uses of the share before this one: {details.uses_before:,}"
    return said


def list_reply_notes(fingerprint: Fingerprint) -> list[str]:
    """Return notes on what replies from another time answer."""
    counts = fingerprint.replies or ReplyCounts()
    notes = []
    if counts.unchecked:
        said = "recorded replies do not say what was asked: they are not checked against the question"
        notes.append(f"{counts.unchecked:,} {said}")
    if counts.other_requests:
        notes.append(f"the request to the agent has changed since {counts.other_requests:,} of the replies were stored")
    return notes


def describe_drift(fingerprint: Fingerprint, drift: JudgeDrift) -> str:
    """Return whether the judge of a run has changed since its calibration, with the models that it named."""
    asked = f"{drift.anchors} replies of the calibration {drift.calibration} were judged again"
    match drift.state:
        case None:
            return f"whether the judge has changed since its calibration is unknown: {drift.reason}"
        case Drift.DRIFTED:
            models = (sorted(drift.then), sorted(fingerprint.judge_models.values()))
            then, now = (", ".join(names) or "an unnamed model" for names in models)
            how = f"it was {then}, and is {now}" if then != now else f"its answers changed behind the same name ({now})"
            return f"the judge has changed since the calibration {drift.calibration}: {how}"
        case _:
            return f"{asked}, and the judge is the same as far as they show (p {drift.p_values[-1]:.2g})"


_CACHED = {"refusals": "parameters that its endpoint refused"}
"""What the cache has beside the results of metrics, in words."""


def list_judge_notes(fingerprint: Fingerprint) -> list[str]:
    """Return notes on the judge: the parameters that its endpoint refused, the models that its replies state, if they
    are not the configured one, and the results that are from the cache.
    """
    named = ", ".join(f"{name} ({instead})" for name, instead in sorted(fingerprint.judge_refused.items()))
    notes = [f"the judge's endpoint refused parameters: {named}"] if named else []
    judge, stated = fingerprint.judge, [*fingerprint.judge_models.values()]
    configured = [] if judge is None else [judge.model, *(one.model for one in judge.panel)]
    if stated and {*stated} != {*configured}:
        said = f"its replies state the model {', '.join(stated)}"
        notes.append(f"the judge is configured as {', '.join(configured)}; {said}")
    cached = {_CACHED.get(metric, metric): said for metric, said in fingerprint.judge_cached.items()}
    since = "; ".join(f"{metric} (since {said})" for metric, said in sorted(cached.items()))
    notes += [f"results from the judge's cache: {since}"] if since else []
    notes += [
        f"{dataset}: {metric}: {describe_drift(fingerprint, drift)}"
        for dataset, drifts in fingerprint.judge_drifts.items()
        for metric, drift in drifts.items()
    ]
    others = fingerprint.judge_models.keys() - fingerprint.judge_cached_models.keys()
    if fingerprint.judge_cached_models and others:
        now = ", ".join(sorted(fingerprint.judge_models[key] for key in others))
        notes.append(f"the judge is now the model {now}, but cached results are of another; --fresh asks again")
    return notes
