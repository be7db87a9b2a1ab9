"""The sections of a retriever (settings, gains, latencies, missing documents), and the answer which one is best."""

from collections.abc import Iterator, Mapping, Sequence
from itertools import repeat

from msgspec import Struct

from evalspec.base.plural import counted, pluralize
from evalspec.model import (
    TOTAL,
    AlwaysRetrieved,
    DatasetResult,
    Diagnosis,
    Direction,
    MissingDocument,
    NeverRetrieved,
    QueryDiagnosis,
    RetrieverSettings,
    Run,
    StageLatency,
    Summary,
    VerdictStatus,
)
from evalspec.reports.view.parts import (
    TONES,
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
    Tone,
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
from evalspec.verdict.wording import MARKS, UNKNOWN, render_delta, render_known, render_value

_ALTERNATIVES_SHOWN = 3
_RERANKING_COLUMNS = (
    names("metric"),
    *numbers("retrieved", "reranked", "gain"),
    Column("95 % interval", right=True, wrap=Wrap.WORDS),
    *numbers("scored"),
)
_STAGE_COLUMNS = (names("stage"), *numbers("p50", "p95", "p99", "n"))
_METRICS = 6
"""Maximum number of metrics in the table."""
_WORST_FIRST = (VerdictStatus.FAIL, VerdictStatus.INCOMPLETE, VerdictStatus.PASS)


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


def build_answer(runs: Mapping[str, Run], metric: str | None, best: Mapping[str, str | None]) -> Iterator[Section]:
    """Yield a table for each dataset, with a row for each retriever.

    `runs`: by retriever. `metric`: the one that retrievers are ordered by; None: their given order. `best`: the chosen
    retriever by dataset.
    """
    first = next(iter(runs.values()))
    for dataset in first.datasets:
        found = {retriever: _find(run, dataset.name) for retriever, run in runs.items()}
        metrics = _list_metrics(dataset, metric)
        columns = (
            names("retriever"),
            Column(),
            *(Column(Foreign(one), right=True, wrap=Wrap.WORDS, extra=True) for one in metrics),
            *numbers("scored", "p95"),
        )
        chosen = best.get(dataset.name)
        ranks = {one: (one != chosen, *(_badness(result, metric) if metric else ())) for one, result in found.items()}
        ordered = sorted(found, key=lambda one: ranks[one])
        rows = tuple(_row(one, runs[one], found[one], metrics, chosen) for one in ordered)
        title = ("Retrievers on ", *name(dataset.name))
        yield Section("retrievers", title, (Table(columns, rows),), "the retrievers", rank=0)


def build_headline(verdict: VerdictStatus, *, partial: bool) -> tuple[Cell, ...]:
    """Return the verdict over all retrievers, as the beginning of the headline."""
    left_out = (cell("PARTIAL", tone=Tone.WARN),) if partial else ()
    return cell(verdict.replace("_", " "), tone=TONES[verdict]), *left_out


def render_answers_lead(answers: Sequence[str]) -> tuple[Line, ...]:
    """Return the chosen retrievers as lines."""
    return tuple(Line((Foreign(answer),), tone=Tone.PASS) for answer in answers)


def _find(run: Run, dataset: str) -> DatasetResult:
    return next(one for one in run.datasets if one.name == dataset)


def _list_metrics(dataset: DatasetResult, metric: str | None) -> list[str]:
    limited = {threshold.metric for threshold in dataset.thresholds}
    scored = [one for one, summary in dataset.metrics.items() if summary.scored]
    return sorted(scored, key=lambda one: (one != metric, one not in limited))[:_METRICS]


def _badness(dataset: DatasetResult, metric: str) -> tuple[bool, float]:
    """Return a sort key: retrievers that are not scored on every sample come last."""
    summary = dataset.metrics.get(metric)
    if summary is None or summary.value is None:
        return True, 0.0
    partial = summary.scored < summary.expected
    return partial, -summary.value if summary.direction is Direction.HIGHER else summary.value


def _find_verdict(run: Run, dataset: DatasetResult) -> VerdictStatus:
    """Return the verdict of a run on one of its datasets: the worst status of its thresholds."""
    if len(run.datasets) == 1 or run.verdict is VerdictStatus.NOT_GATED:
        return run.verdict
    statuses = {threshold.status for threshold in dataset.thresholds}
    return next((status for status in _WORST_FIRST if status in statuses), VerdictStatus.NOT_GATED)


def _row(retriever: str, run: Run, dataset: DatasetResult, metrics: Sequence[str], best: str | None) -> Row:
    tone = Tone.PASS if retriever == best else Tone.PLAIN
    values = (dataset.metrics.get(metric) for metric in metrics)
    total = next((stage.p95 for stage in dataset.stages if stage.stage == TOTAL), None)
    verdict = _find_verdict(run, dataset)
    return Row(
        (
            cell(*name(retriever), " (best)" if retriever == best else "", tone=tone),
            cell(verdict.replace("_", " "), mark=MARKS[verdict], tone=TONES[verdict]),
            *(
                cell(render_known(metric, summary.value if summary else None), tone=tone)
                for metric, summary in zip(metrics, values, strict=True)
            ),
            _scored_cell(dataset, metrics),
            cell(render_known("latency", total), tone=tone),
        )
    )


def _scored_cell(dataset: DatasetResult, metrics: Sequence[str]) -> Cell:
    """Return how many samples the first metric of the table is scored on."""
    summary = dataset.metrics.get(metrics[0]) if metrics else None
    if summary is None:
        return cell(UNKNOWN)
    tone = Tone.WARN if summary.scored < summary.expected else Tone.PLAIN
    return cell(f"{summary.scored:,}/{summary.expected:,}", tone=tone)
