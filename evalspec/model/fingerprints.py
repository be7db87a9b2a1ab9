"""The parts of a fingerprint that readers of stored runs, reports and baselines rely on."""

from collections.abc import Mapping
from typing import Annotated, Any

from msgspec import Meta, Struct, ValidationError, convert, field

from evalspec.model.base import built


class _Manifest(Struct):
    path: str = ""
    fields: dict[str, str] = {}


class _Agent(Struct, rename="camel"):
    name: str | None = None
    version: str | None = None
    url: str | None = None
    sha256: str | None = None
    endpoint_sha256: str | None = None
    reused_url: str | None = None


class _Dataset(Struct, rename="camel"):
    name: str
    file: str | None = None
    sha256: str | None = None
    available: int = 0
    selected: int = 0
    selection_sha256: str | None = None
    samples_sha256: str | None = None
    metrics: list[str] = []
    metric_identities: dict[str, dict[str, Any]] = {}
    part: dict[str, Any] | None = None


class _Selection(Struct, rename="camel"):
    datasets: list[str] = []
    sample_size: int | None = None
    seed: int | None = None
    tags: list[str] = []
    exclude_tags: list[str] = []
    where: list[str] = []
    stratify: list[str] = []
    slice: str | None = None
    held_out: bool = False
    retriever: str | None = None
    mode: str | None = None
    top_k: int | None = None
    rerank_top_k: int | None = None
    scope_prefix: str | None = None
    no_ingest: bool | None = None
    cleanup: str | None = None
    allow_custom_prefix: bool | None = None
    depth: int | None = None


class _Retriever(Struct):
    name: str


class _Repeats(Struct):
    agent: int = 1
    judge: int = 1


class _PooledRun(Struct, rename="camel"):
    id: str
    attempts: Annotated[int, Meta(ge=1)]
    started_at: str | None = None


class CiBuild(Struct, frozen=True, rename="camel", kw_only=True, omit_defaults=True):
    """The CI build that evaluated or pushed a run. None: the CI service does not say.

    `commit`: what was checked out, which for a pull request may be its merge commit. `pull_request`: its number.
    `url`: the page of the build.
    """

    service: str
    branch: str | None = None
    commit: str | None = None
    pull_request: str | None = None
    url: str | None = None


class _Fingerprint(Struct, rename="camel"):
    started_at: str = ""
    manifest: _Manifest = field(default_factory=_Manifest)
    agent: _Agent = field(default_factory=_Agent)
    responses: dict[str, Any] | None = None
    datasets: list[_Dataset] = []
    selection: _Selection | None = None
    retrievers: dict[str, _Retriever] = {}
    retrievers_sha256: str | None = None
    repeats: _Repeats | None = None
    no_judge: bool = False
    no_content: bool = False
    judge: dict[str, Any] | None = None
    judge_sha256: str | None = None
    judge_refused: dict[str, str] = {}
    judge_models: dict[str, str] = {}
    judge_system_fingerprints: dict[str, str] = {}
    embeddings: dict[str, Any] | None = None
    embeddings_sha256: str | None = None
    versions: dict[str, str] = {}
    best_of: int | None = None
    ci: CiBuild | None = None
    recorded: bool = False
    runs: list[_PooledRun] = []
    ci_gate: dict[str, Any] | None = None


class Described(Struct):
    """A document with a fingerprint. `anchor`: of a baseline."""

    fingerprint: _Fingerprint
    anchor: "Described | None" = None


class _Path(Struct):
    path: str


_Reference = Annotated[str, Meta(pattern="^(?:env|secret|literal):.")]
_SaltedDigest = Annotated[str, Meta(pattern="^[0-9a-f]{160}$")]


class _StoredAgent(Struct):
    sha256: str | None


class _StoredDataset(Struct):
    name: str
    file: str
    selected: int


class _StoredSelection(Struct, rename="camel"):
    datasets: list[str]
    sample_size: int | None
    seed: int
    tags: list[str]
    exclude_tags: list[str]


class _Stored(Struct, rename="camel"):
    manifest: _Path
    agent: _StoredAgent
    responses: _Path | None
    datasets: list[_StoredDataset]
    selection: _StoredSelection
    repeats: _Repeats
    no_judge: bool
    references: dict[_Reference, _SaltedDigest]


def check_fingerprint(fingerprint: Mapping[str, Any], *, is_stored: bool = False) -> str | None:
    """Return what is invalid in a fingerprint, or None. Missing and unknown keys are valid.

    `is_stored`: the fingerprint is from run.json, where the keys that later commands need are required.
    """
    try:
        convert(fingerprint, built(_Fingerprint))
        if is_stored:
            convert(fingerprint, built(_Stored))
    except (ValidationError, UnicodeEncodeError) as error:
        return str(error)
    return None


def digest_parts(identity: Mapping[str, Any]) -> dict[str, str]:
    """Return the digest of each part of a metric's identity, or the whole part if it has none.

    Labels before digests may be redacted in one of two runs.
    """
    return {part: str(value).rpartition("#")[2] for part, value in identity.items()}


def describe_part(fingerprint: Mapping[str, Any]) -> str | None:
    """Return the part of the gold sets that a run used: `slice 2026Q4` or `the held-out share`. None: all of them."""
    selection = fingerprint.get("selection")
    if not isinstance(selection, Mapping):
        return None
    if selection.get("heldOut"):
        return "the held-out share"
    return f"slice {selection['slice']}" if selection.get("slice") else None


def list_part_notes(fingerprint: Mapping[str, Any]) -> list[str]:
    """Return a note for each dataset of a run of a part: its size and cost, and the triples that are left out."""
    part = describe_part(fingerprint)
    if part is None:
        return []
    repeats = fingerprint.get("repeats", {}).get("agent", 1)
    return [_describe_cost(part, dataset, repeats) for dataset in fingerprint.get("datasets", ())]


def _describe_cost(part: str, dataset: Mapping[str, Any], repeats: int) -> str:
    selected, available = dataset.get("selected", 0), dataset.get("available", 0)
    share = f": {100 * selected / available:.0f} % of the full set" if available else ""
    calls = f"{selected * repeats:,} of {available * repeats:,} requests{share}"
    said = f"{dataset.get('name')}: {part}: {selected:,} of {available:,} triples, {calls}"
    details = dataset.get("part") or {}
    if missing := details.get("missing"):
        causes = ", ".join(f"{count:,} {cause}" for cause, count in missing.items())
        said += f"; {sum(missing.values()):,} of the {details.get('drawn'):,} drawn are left out: {causes}"
    if "usesBefore" in details:
        said += f"; uses of the share before this one: {details['usesBefore']:,}"
    return said


UNCHECKED = "unchecked"
OTHER_REQUESTS = "otherRequests"
"""Keys of `replies` in a fingerprint: numbers of replies that were recorded or stored before."""


def list_reply_notes(fingerprint: Mapping[str, Any]) -> list[str]:
    """Return notes on what replies from another time answer."""
    counts = fingerprint.get("replies") or {}
    said = {
        UNCHECKED: "{:,} recorded replies do not say what was asked: they are not checked against the question",
        OTHER_REQUESTS: "the request to the agent has changed since {:,} of the replies were stored",
    }
    return [note.format(counts[key]) for key, note in said.items() if counts.get(key)]


def list_judge_notes(fingerprint: Mapping[str, Any]) -> list[str]:
    """Return notes on the parameters that the judge's endpoint refused, and on the models that its replies state, if
    they are not the configured one.
    """
    refused = fingerprint.get("judgeRefused") or {}
    named = ", ".join(f"{name} ({instead})" for name, instead in sorted(refused.items()))
    notes = [f"the judge's endpoint refused parameters: {named}"] if named else []
    stated, configured = fingerprint.get("judgeModels") or {}, (fingerprint.get("judge") or {}).get("model")
    if stated and [*stated.values()] != [configured]:
        named = ", ".join(stated.values())
        notes.append(f"the judge is configured as {configured}; its replies state the model {named}")
    return notes
