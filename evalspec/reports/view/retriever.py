"""The sections of a retriever: settings, gains of reranking, latencies of the stages, missing documents."""

from collections.abc import Iterator, Sequence
from itertools import repeat

from msgspec import Struct

from evalspec.base.plural import counted, pluralize
from evalspec.model import (
    AlwaysRetrieved,
    DatasetResult,
    Diagnosis,
    MissingDocument,
    NeverRetrieved,
    QueryDiagnosis,
    RetrieverSettings,
    StageLatency,
    Summary,
)
from evalspec.reports.view.parts import (
    Column,
    Entries,
    Entry,
    Foreign,
    Line,
    Part,
    Piece,
    Role,
    Row,
    Section,
    Table,
    Words,
    Wrap,
    cell,
    name,
    names,
    numbers,
    row,
    sample,
)
from evalspec.reports.worst import GAIN, RETRIEVED, is_staged
from evalspec.verdict.wording import UNKNOWN, render_delta, render_known, render_value

_ALTERNATIVES_SHOWN = 3
_RERANKING_COLUMNS = (
    names("metric"),
    *numbers("retrieved", "reranked", "gain"),
    Column("95 % interval", right=True, wrap=Wrap.WORDS),
    *numbers("scored"),
)
_STAGE_COLUMNS = (names("stage"), *numbers("p50", "p95", "p99", "n"))


class Reranking(Struct, frozen=True):
    """One metric before and after reranking, and the difference. None: the dataset does not compute it."""

    metric: str
    retrieved: Summary | None
    reranked: Summary | None
    gain: Summary | None


def describe_settings(settings: RetrieverSettings) -> Words:
    """Return settings as `bm25: retrieve+rerank (dataset), topK 10 (--top-k), scope eval:faq: (dataset file)`."""
    values: dict[str, tuple[str, Piece | None]] = {
        "mode": ("", Foreign(settings.mode)),
        "topK": ("topK ", str(settings.top_k)),
        "rerankTopK": ("rerankTopK ", str(settings.rerank_top_k or "")),
        "scopePrefix": ("scope ", settings.scope_prefix and Foreign(settings.scope_prefix)),
        "minGrade": ("minGrade ", str(settings.min_grade) if settings.min_grade > 1 else None),
    }
    words: list[Piece] = [Foreign(settings.name)]
    for key, (title, value) in values.items():
        if value:
            words += [", " if len(words) > 1 else ": ", title, value]
            words += [" (", Foreign(settings.origins[key]), ")"] if key in settings.origins else []
    return tuple(words)


def list_rerankings(dataset: DatasetResult) -> list[Reranking]:
    """Return the metrics that are computed before reranking, or as a gain, in the order of the dataset."""
    found = dataset.metrics
    staged = (metric for metric in found if is_staged(metric, dataset))
    plain = dict.fromkeys(metric.removeprefix(RETRIEVED if metric.startswith(RETRIEVED) else GAIN) for metric in staged)
    return [Reranking(one, found.get(RETRIEVED + one), found.get(one), found.get(GAIN + one)) for one in plain]


def build_rerankings(dataset: DatasetResult) -> Iterator[Section]:
    """Yield the table of gains, if there was reranking."""
    if rows := tuple(map(_reranking_row, list_rerankings(dataset))):
        table = Table(_RERANKING_COLUMNS, rows)
        yield Section("reranking", ("Before and after reranking",), (table,), "the reranking", rank=3)


def _reranking_row(found: Reranking) -> Row:
    """Return the row of one metric. The last cell is the number of samples with a known gain."""
    gain, known = found.gain, found.gain or found.retrieved
    ends = gain.interval if gain else None
    values = [
        *(render_known(found.metric, one.value if one else None) for one in (found.retrieved, found.reranked)),
        render_delta("", gain.value if gain else None),
        " – ".join(render_delta("", end) for end in ends) if ends else UNKNOWN,
        f"{known.scored:,}/{known.expected:,}" if known else UNKNOWN,
    ]
    return row(cell(*name(found.metric)), *map(cell, values))


def build_stages(stages: Sequence[StageLatency]) -> Iterator[Section]:
    """Yield the table of latencies, if they are known."""
    if stages:
        table = Table(_STAGE_COLUMNS, tuple(map(_stage_row, stages)))
        yield Section("stages", ("Latency of the stages",), (table,), "the latencies", rank=3)


def _stage_row(stage: StageLatency) -> Row:
    values = [*(render_value("latency", share) for share in (stage.p50, stage.p95, stage.p99)), f"{stage.count:,}"]
    return row(cell(*name(stage.stage)), *map(cell, values))


def build_missing(diagnosis: Diagnosis | None, most: int = 100) -> Iterator[Section]:
    """Yield the diagnosis, if a query misses relevant documents. `most`: maximum length of each list."""
    if diagnosis is None or not diagnosis.queries:
        return
    top = f"the first {diagnosis.cutoff:,}"
    queries, never, always = diagnosis.queries, diagnosis.never_retrieved, diagnosis.always_retrieved
    miss = pluralize(len(queries), "misses", "miss")
    parts: list[Part] = [
        Line((f"{len(queries):,} of {_queries(diagnosis.answered)} {miss} something relevant among {top}",))
    ]
    if unknown := diagnosis.unanswered:
        named = tuple(map(sample, unknown[:most]))
        parts.append(Line(("queries without a ranking, not diagnosed",), named, _beyond(unknown, most)))
    parts.append(
        Entries("query", tuple(map(_query_entry, queries[:most], repeat(diagnosis.depth))), more=_beyond(queries, most))
    )
    if never:
        said = tuple(Entry(Foreign(one.document), (_say_never(one),)) for one in never[:most])
        parts.append(Entries("document", said, f"never retrieved, among {top} of no query", _beyond(never, most)))
    if always:
        title = f"always retrieved, among {top} of almost every query and not relevant"
        said = tuple(Entry(Foreign(one.document), (_say_always(one, diagnosis.answered),)) for one in always[:most])
        parts.append(Entries("document", said, title, _beyond(always, most)))
    yield Section("missing", ("What is missing",), tuple(parts), "the missing documents", rank=4, folded=True)


def _query_entry(found: QueryDiagnosis, depth: int) -> Entry:
    said = f"{found.wanted - len(found.missing):,} of {found.wanted:,} found"
    missing = tuple(_say_missing(one, found.searched, depth) for one in found.missing)
    distractors: tuple[Words, ...] = tuple(
        (f"{one.rank:,}. ", Foreign(one.document), f" ({_say_grade(one.grade)})") for one in found.pushed_out_by
    )
    lines = [Line(("missing",), missing), *([Line(("pushed out by",), distractors)] if distractors else [])]
    return Entry(Foreign(found.query, Role.SAMPLE), (said,), lines=tuple(lines))


def _say_missing(one: MissingDocument, searched: int, depth: int) -> Words:
    """Return a missing document with its alternatives, its grade, and its rank in the deep ranking."""
    documents = [one.document, *one.alternatives[:_ALTERNATIVES_SHOWN]]
    rest = len(one.alternatives) - _ALTERNATIVES_SHOWN
    words: list[Piece] = []
    for document in documents:
        words += [" or ", Foreign(document)] if words else [Foreign(document)]
    words += [f" or {rest:,} more"] if rest > 0 else []
    nowhere = f"not in the first {depth:,}" if searched == depth else f"not among the {searched:,} retrieved"
    return (*words, f" ({_say_grade(one.grade)}): {nowhere if one.rank is None else f'rank {one.rank:,}'}")


def _say_grade(grade: int | None) -> str:
    return "unjudged" if grade is None else f"grade {grade}"


def _say_never(one: NeverRetrieved) -> str:
    """Return how many queries miss a document, and its best rank."""
    where = "nowhere in their rankings" if one.best_rank is None else f"rank {one.best_rank:,} at best"
    return f"missed by {_queries(len(one.queries))}, {where}"


def _say_always(one: AlwaysRetrieved, answered: int) -> str:
    """Return for how many queries a document is retrieved, and how many of them miss relevant documents."""
    lacking = f"{one.blocking:,} of them {pluralize(one.blocking, 'misses', 'miss')} something relevant"
    return f"for {round(one.share * answered):,} of {_queries(answered)}, {lacking}"


def _queries(count: int) -> str:
    return counted(count, "query", "queries")


def _beyond(items: Sequence[object], most: int) -> int:
    return max(len(items) - most, 0)
