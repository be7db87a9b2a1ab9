"""What was asked of a retriever: the settings, what reranking gained, latencies of the stages, and what is missing."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from evalspec.records import (
    DatasetResult,
    Diagnosis,
    MissingDocument,
    QueryDiagnosis,
    RetrieverSettings,
    StageLatency,
    Summary,
)
from evalspec.reporters.view.parts import (
    Cell,
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
    name,
    sample,
)
from evalspec.reporters.wording import UNKNOWN, render_known, render_value
from evalspec.reporters.worst import GAIN, RETRIEVED, is_staged

_ALTERNATIVES_SHOWN = 3


@dataclass(frozen=True, slots=True)
class Reranking:
    """One metric before and after reranking, and the difference; None: the dataset does not compute it."""

    metric: str
    retrieved: Summary | None
    reranked: Summary | None
    gain: Summary | None


def describe_settings(settings: RetrieverSettings) -> Words:
    """`bm25: retrieve+rerank (dataset), topK 10 (--top-k), scope eval:faq: (dataset file)`."""
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


def find_rerankings(dataset: DatasetResult) -> list[Reranking]:
    """Every metric that is computed before reranking, or as its gain, in the order of the dataset."""
    found = dataset.metrics
    staged = (metric for metric in found if is_staged(metric, dataset))
    plain = dict.fromkeys(metric.removeprefix(RETRIEVED if metric.startswith(RETRIEVED) else GAIN) for metric in staged)
    return [Reranking(one, found.get(RETRIEVED + one), found.get(one), found.get(GAIN + one)) for one in plain]


def build_rerankings(dataset: DatasetResult) -> Iterator[Section]:
    """What reranking gained, where there was any."""
    if rows := tuple(map(_reranking_row, find_rerankings(dataset))):
        columns = (
            Column("metric", wrap=Wrap.FOLD),
            *(Column(title, right=True) for title in ("retrieved", "reranked", "gain")),
            Column("95 % interval", right=True, wrap=Wrap.WORDS),
            Column("scored", right=True),
        )
        yield Section("reranking", ("Before and after reranking",), (Table(columns, rows),), "the reranking", rank=3)


def _reranking_row(found: Reranking) -> Row:
    """`scored`: of how many samples the gain is known."""
    gain, known = found.gain, found.gain or found.retrieved
    ends = gain.interval if gain else None
    values = [
        *(render_known(found.metric, one.value if one else None) for one in (found.retrieved, found.reranked)),
        UNKNOWN if gain is None or gain.value is None else f"{gain.value:+.3f}",
        f"{ends[0]:+.3f} – {ends[1]:+.3f}" if ends else UNKNOWN,
        f"{known.scored:,}/{known.expected:,}" if known else UNKNOWN,
    ]
    return Row((Cell(name(found.metric)), *(Cell((value,)) for value in values)))


def build_stages(stages: Sequence[StageLatency]) -> Iterator[Section]:
    """What the stages took, where that is known."""
    if stages:
        columns = (
            Column("stage", wrap=Wrap.FOLD),
            *(Column(title, right=True) for title in ("p50", "p95", "p99", "n")),
        )
        table = Table(columns, tuple(map(_stage_row, stages)))
        yield Section("stages", ("Latency of the stages",), (table,), "the latencies", rank=3)


def _stage_row(stage: StageLatency) -> Row:
    values = [*(render_value("latency", share) for share in (stage.p50, stage.p95, stage.p99)), f"{stage.count:,}"]
    return Row((Cell(name(stage.stage)), *(Cell((value,)) for value in values)))


def build_missing(diagnosis: Diagnosis | None, most: int = 100) -> Iterator[Section]:
    """The diagnosis, where some query misses something, the worst first. `most`: of each list, what any form shows."""
    if diagnosis is None or not diagnosis.queries:
        return
    top = f"the first {diagnosis.cutoff:,}"
    queries, never, always = diagnosis.queries, diagnosis.never_retrieved, diagnosis.always_retrieved
    parts: list[Part] = [
        Line((f"{len(queries):,} of {_queries(diagnosis.answered)} miss something relevant among {top}",))
    ]
    if diagnosis.unanswered:
        unknown = tuple(map(sample, diagnosis.unanswered[:most]))
        more = len(diagnosis.unanswered) - len(unknown)
        parts.append(Line(("queries without a ranking, of which nothing is known",), unknown, more))
    parts += [
        Entries(
            "query", tuple(_query_entry(one, diagnosis.depth) for one in queries[:most]), more=_beyond(queries, most)
        ),
        Entries(
            "document",
            tuple(Entry(Foreign(one.document), (_say_never(len(one.queries), one.best_rank),)) for one in never[:most]),
            f"never retrieved, among {top} of no query",
            _beyond(never, most),
        ),
        Entries(
            "document",
            tuple(
                Entry(Foreign(one.document), (_say_always(one.share, one.blocking, diagnosis.answered),))
                for one in always[:most]
            ),
            f"always retrieved, among {top} of almost every query and not relevant",
            _beyond(always, most),
        ),
    ]
    shown = tuple(part for part in parts if not isinstance(part, Entries) or part.entries)
    yield Section("missing", ("What is missing",), shown, "the missing documents", rank=4, folded=True)


def _query_entry(found: QueryDiagnosis, depth: int) -> Entry:
    said = f"{found.wanted - len(found.missing):,} of {found.wanted:,} found"
    missing = tuple(_say_missing(one, found.searched, depth) for one in found.missing)
    intruders: tuple[Words, ...] = tuple(
        (f"{one.rank:,}. ", Foreign(one.document), f" ({_say_grade(one.grade)})") for one in found.pushed_out_by
    )
    lines = [Line(("missing",), missing), *([Line(("pushed out by",), intruders)] if intruders else [])]
    return Entry(Foreign(found.query, Role.SAMPLE), (said,), lines=tuple(lines))


def _say_missing(one: MissingDocument, searched: int, depth: int) -> Words:
    """A missing document with those that would have done as well, its grade, and where it was found further down."""
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


def _say_never(queries: int, best_rank: int | None) -> str:
    """How many queries miss a document, and how near it comes."""
    where = "nowhere in their rankings" if best_rank is None else f"rank {best_rank:,} at the best"
    return f"missed by {_queries(queries)}, {where}"


def _say_always(share: float, blocking: int, answered: int) -> str:
    """For how many queries a document is retrieved, and how many of them could do with its place."""
    return f"for {round(share * answered):,} of {_queries(answered)}, {blocking:,} of them miss something relevant"


def _queries(count: int) -> str:
    return f"{count:,} {'query' if count == 1 else 'queries'}"


def _beyond(items: Sequence[object], most: int) -> int:
    return max(len(items) - most, 0)
