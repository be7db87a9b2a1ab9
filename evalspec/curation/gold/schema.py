"""The files of a gold set, as people write them. The docstrings are their reference on the site."""

from datetime import date
from enum import StrEnum
from typing import Annotated, Any, Literal

from pydantic import (
    BaseModel,
    ConfigDict,
    Discriminator,
    Field,
    JsonValue,
    StrictBool,
    StrictInt,
    StrictStr,
    Tag,
    field_validator,
    model_validator,
)

from evalspec.curation.gold.values import Date, Day, FileName, Hash, Share, Strict, Text, of_form

_FLOATING_VERSIONS = frozenset({"latest", "current", "head", "newest"})


class TripleSource(StrEnum):
    """Where a question comes from."""

    PUBLIC = "public"
    CUSTOMER = "customer"
    SYNTHETIC = "synthetic"


class Traffic(StrEnum):
    """How often a question is asked."""

    HEAD = "head"
    TORSO = "torso"
    TAIL = "tail"


class Kind(StrEnum):
    """What an event records."""

    ADD = "add"
    REVISE = "revise"
    ASSIGN = "assign"
    CONFIRM = "confirm"
    FLAG = "flag"
    RESOLVE = "resolve"
    ADJUDICATE = "adjudicate"
    STALE = "stale"
    RETIRE = "retire"
    REVOKE = "revoke"


class Flag(StrEnum):
    """What a reviewer finds wrong with a triple."""

    QUESTION_UNREALISTIC = "question_unrealistic"
    WRONG_BLOCK = "wrong_block"
    NOT_ENTAILED = "not_entailed"
    OVERSTATED = "overstated"
    UNDERSTATED = "understated"


class DisputeOutcome(StrEnum):
    """How a dispute ends. A third person who adjudicates accepts (`upheld`) or drops."""

    UPHELD = "upheld"
    REVISED = "revised"
    SPLIT = "split"
    DROPPED = "dropped"


class Category(StrEnum):
    """What a dispute is about. The first three have a rule (docs/reference/gold-reference.md)."""

    NUMERIC = "numeric"
    SYNONYM = "synonym"
    COMPOUND = "compound"
    OTHER = "other"


class Block(Strict):
    """A passage that answers the question. `block_id`: what retrieval metrics look for. `document_id`: its document.

    `page_range`: [first, last]. `version` pins its content: `sha256:` and a hash of its text, or a release's name.
    """

    block_id: Text
    document_id: Text | None = None
    page_range: Annotated[list[Annotated[StrictInt, Field(ge=0)]], Field(min_length=2, max_length=2)] | None = None
    version: Text | None = None

    @field_validator("page_range")
    @classmethod
    def _runs_forward(cls, pages: list[int] | None) -> list[int] | None:
        if pages is not None and pages[0] > pages[1]:
            raise ValueError(f"{pages} ends before it begins; write [first, last]")
        return pages

    @field_validator("version")
    @classmethod
    def _pins(cls, version: str | None) -> str | None:
        if version is not None and version.strip().casefold() in _FLOATING_VERSIONS:
            raise ValueError(f"'{version}' changes with the document; write the version that the answer was checked in")
        return version


class AnyOf(Strict):
    """Alternatives: each of the blocks answers the question."""

    any: Annotated[list[Block], Field(min_length=1)]


Part = Annotated[
    Annotated[Block, Tag("one")] | Annotated[AnyOf, Tag("alternatives")],
    Discriminator(lambda value: "alternatives" if isinstance(value, AnyOf) or "any" in _keys(value) else "one"),
]
Blocks = Annotated[
    Annotated[Block, Tag("one")] | Annotated[list[Part], Field(min_length=1), Tag("several")],
    Discriminator(lambda value: "several" if isinstance(value, list) else "one"),
]


def _keys(value: Any) -> Any:
    return value if isinstance(value, dict) else ()


class Provenance(BaseModel):
    """The origin of a public question."""

    model_config = ConfigDict(extra="allow", defer_build=True, frozen=True)
    url: Text | None = None
    licence: Text | None = None


class TripleMetadata(BaseModel):
    """Metadata of a triple. Other keys are allowed. Every key, such as `domain` and `difficulty`, is one of slices.

    `source`: public, customer or synthetic. `customer`: of a customer question, or of a synthetic one about it.
    `provenance`: {url, licence} of a public question. `failure_mode`: such as numeric, compound or vocabulary.
    `traffic`: head, torso or tail. `generated_by`: the model that wrote it; such a triple is `stress` until two people
    confirm it. `added_by`, `added_at`: written by `gold add`. `reviewed_by`, `resolution`: written by exports only.
    """

    model_config = ConfigDict(extra="allow", defer_build=True, allow_inf_nan=False, frozen=True)
    __pydantic_extra__: dict[str, JsonValue]
    domain: Text | None = None
    difficulty: Text | None = None
    source: TripleSource | None = None
    customer: FileName | None = None
    provenance: Provenance | None = None
    failure_mode: Text | None = None
    traffic: Traffic | None = None
    generated_by: Text | None = None
    added_by: Text | None = None
    added_at: Date | None = None
    reviewed_by: list[Text] | None = None
    resolution: Text | None = None

    @model_validator(mode="after")
    def _customer_is_named(self) -> "TripleMetadata":
        if self.customer is not None and self.source not in (TripleSource.CUSTOMER, TripleSource.SYNTHETIC):
            raise ValueError("only customer questions have a customer; set source: customer, or remove the customer")
        return self


class Triple(Strict):
    """A `question`, the block or blocks that answer it, and the `expected_answer`. `claims`: its atomic statements.

    `expected_block`: one block, or a list of blocks that are all needed, with `{any: [...]}` for alternatives.
    `metadata`: a mapping. `id`: required only for several triples in one file, otherwise the name of the file.
    """

    question: Text
    expected_block: Blocks
    expected_answer: Text | None = None
    claims: Annotated[list[Text], Field(min_length=1)] | None = None
    metadata: dict[str, JsonValue] = Field(default_factory=dict)
    id: Text | None = None

    @property
    def groups(self) -> tuple[tuple[Block, ...], ...]:
        """The blocks as AND/OR ground truth: one block of each group is needed."""
        parts = self.expected_block if isinstance(self.expected_block, list) else [self.expected_block]
        return tuple(tuple(part.any) if isinstance(part, AnyOf) else (part,) for part in parts)

    @property
    def blocks(self) -> tuple[Block, ...]:
        """All blocks, each once."""
        every = [block for group in self.groups for block in group]
        return tuple(block for place, block in enumerate(every) if block not in every[:place])


class GoldTriple(Triple):
    """A triple in a gold set, whose metadata has a schema."""

    metadata: TripleMetadata = TripleMetadata()  # type: ignore[assignment]


class Event(Strict):
    """One thing of some `kind` that a person did: `by` whom, and `at` which time.

    `verdict`: of a flag what is wrong, of resolve and adjudicate how the dispute ends. `revision`: that of the triple.
    `content_hash`: of question, blocks, answer, claims and some metadata. `category`, `note`: of a dispute.

    `authors`: of an added triple, who wrote its text before `by` added it, the main author first.
    `children`: ids of the triples that replace a split one. `to`: to whom a review is assigned. `settles`: the flags
    that somebody who upholds the triple knew, by person. `customer`: of the content that was added or revised.
    `is_computed`: a revision by `gold pin` or `gold carry`, which nobody wrote. `is_imported`: a review from before the
    set had events, or of the revision before that pinned the same texts. `is_informed`: its author could see what
    others said about the triple. Agreement statistics leave out both. `texts`: of a review, the pins of the texts of
    unpinned blocks that the reviewer saw, by block.
    """

    kind: Kind
    revision: Annotated[StrictInt, Field(ge=1)]
    content_hash: Hash
    by: FileName
    at: Date
    verdict: Flag | DisputeOutcome | None = None
    category: Category | None = None
    note: Text | None = None
    to: FileName | None = None
    authors: list[FileName] | None = None
    children: list[FileName] | None = None
    settles: dict[FileName, list[Flag]] | None = None
    customer: FileName | None = None
    texts: dict[Text, Text] | None = None
    is_computed: StrictBool = False
    is_imported: StrictBool = False
    is_informed: StrictBool = False

    @model_validator(mode="after")
    def _says_what_its_kind_needs(self) -> "Event":
        verdicts = {Kind.FLAG: Flag, Kind.RESOLVE: DisputeOutcome, Kind.ADJUDICATE: DisputeOutcome}
        wanted = verdicts.get(self.kind)
        if wanted is None and self.verdict is not None:
            raise ValueError(f"an event of kind {self.kind} has no verdict; remove it")
        if wanted is not None and not isinstance(self.verdict, wanted):
            raise ValueError(f"an event of kind {self.kind} needs a verdict; write one of {', '.join(wanted)}")
        if (self.kind is Kind.ASSIGN) != (self.to is not None):
            raise ValueError("`to` belongs to events of kind assign; add or remove it")
        if (self.verdict is DisputeOutcome.UPHELD) != bool(self.settles):
            raise ValueError("an event that upholds, and no other, names in `settles` the flags that it knew")
        return self


class Person(Strict):
    """Somebody who writes or reviews triples. `email`: as in git, to recognise the person."""

    email: Text | None = None


class Targets(Strict):
    """The intended composition. `source`: shares, 1 in all. `tolerance`: largest accepted difference of a share.

    `cell`: number of triples in each cell of domain × difficulty × failure mode below which the cell is sparse.
    """

    source: dict[TripleSource, Share] = Field(
        default_factory=lambda: {TripleSource.PUBLIC: 0.4, TripleSource.CUSTOMER: 0.3, TripleSource.SYNTHETIC: 0.3}
    )
    tolerance: Share = 0.1
    cell: Annotated[StrictInt, Field(ge=1)] = 3

    @field_validator("source")
    @classmethod
    def _is_whole(cls, shares: dict[TripleSource, float]) -> dict[TripleSource, float]:
        if abs(sum(shares.values()) - 1) > 1e-9:
            raise ValueError(f"the shares add up to {sum(shares.values()):g}; make it 1")
        return shares


class Rules(Strict):
    """Rules that a team may change. `held_out`: share of the triples that is in no slice.

    `false_alarms`: upper bound of the probability that anybody's flag rate ever raises a false alarm. `newcomer`: a
    person's first reviews or triples, which raise no alarm. `common`: least number of triples in common for kappa.
    """

    held_out: Share = 0.2
    false_alarms: Annotated[float, Field(strict=True, gt=0, lt=1)] = 0.01
    newcomer: Annotated[StrictInt, Field(ge=0)] = 50
    common: Annotated[StrictInt, Field(ge=2)] = 30


class SetFile(Strict):
    """The set: its `name`, a `description`, its `people` by name. `demonstration`: the people are invented, and reports
    say so. `targets`: the intended composition. `rules`: those that a team may change. `private`: regular expressions
    of text that must not be published.
    """

    name: Text
    description: StrictStr = ""
    demonstration: StrictBool = False
    people: Annotated[dict[FileName, Person], Field(min_length=1)]
    targets: Targets = Targets()
    rules: Rules = Rules()
    private: list[Text] = Field(default_factory=list)

    @field_validator("people", mode="before")
    @classmethod
    def _without_details(cls, people: Any) -> Any:
        return {name: one or {} for name, one in people.items()} if isinstance(people, dict) else people


class SliceFile(Strict):
    """A working slice: its `name`, the `seed` of the draw, `drawn_at` which time, and `drawn_by` whom.

    `triples`: the members as id@revision. `size`: the number that was asked for. `round`: slices of one round are
    disjoint. `removed`: former members whose customer revoked the permission.
    """

    name: FileName
    seed: StrictInt
    size: Annotated[StrictInt, Field(ge=1)]
    round: Annotated[StrictInt, Field(ge=1)] = 1
    drawn_at: Date
    drawn_by: FileName
    triples: list[Annotated[StrictStr, of_form(r"[^@]+(?:@[^@]+)*@\d+", "a triple; write ID@REVISION")]]
    removed: list[Text] = Field(default_factory=list)

    @model_validator(mode="after")
    def _has_members(self) -> "SliceFile":
        if not self.triples and not self.removed:
            raise ValueError("the slice has no triples; remove the file")
        return self

    @property
    def revisions(self) -> dict[str, int]:
        """The members: revision by id."""
        parts = (one.rpartition("@") for one in self.triples)
        return {name: int(revision) for name, _, revision in parts}

    @model_validator(mode="after")
    def _has_each_once(self) -> "SliceFile":
        if len(self.revisions) < len(self.triples):
            raise ValueError("a triple is listed twice; restore the file from git")
        return self


class HeldOutUse(Strict):
    """held-out/<run>-<by>.yaml: one evaluation of the held-out share. `by`: None if git knows nobody of the set."""

    run: Text
    at: Date
    by: FileName | None = None


class Grant(Strict):
    """A customer's grant. `scope`: the domains that it covers. `terms`: names and products to redact.

    `granted_by`: who granted it, `at` which day. `evidence`: where that is documented. `expires`: the last day on which
    it counts; later it counts as revoked. `revoked_at`: the day of a revocation.
    """

    granted_by: Text
    at: Day
    evidence: Text
    scope: Literal["all"] | Annotated[list[Text], Field(min_length=1)] = "all"
    expires: Day | None = None
    terms: list[Text] = Field(default_factory=list)
    revoked_at: Day | None = None

    def is_active(self, today: date) -> bool:
        """Return whether the grant permits evaluation on a day."""
        return self.revoked_at is None and (self.expires is None or self.expires[:10] >= today.isoformat())


class Allowed(Strict):
    """exceptions/<id>-<kind>.yaml: a person's decision that a hit of the scrubber may be published.

    It counts for this content only.
    """

    triple: FileName
    kind: FileName
    content_hash: Hash
    by: FileName
    at: Date


class Export(Strict):
    """exports/<hash>.yaml: a file or folder that was written from the set. `path`: relative to the set's folder.

    `triples`: the exported ones as id@revision.
    """

    path: Text
    format: Text
    is_public: StrictBool = False
    by: FileName
    at: Date
    triples: list[Text]
