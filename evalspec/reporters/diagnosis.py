"""A diagnosis of rankings as lines of plain text."""

from collections.abc import Iterator, Sequence

from evalspec.records import AlwaysRetrieved, Diagnosis, Intruder, MissingDocument, NeverRetrieved, QueryDiagnosis
from evalspec.reporters.wording import inert

_SHOWN = 10
_INTRUDERS_SHOWN = 5


def render_diagnosis(diagnosis: Diagnosis, shown: int = _SHOWN) -> list[str]:
    """What is missing and what stands in its place, the worst first; `shown`: how many of each list are written out."""
    top, lacking = f"the first {diagnosis.cutoff:,}", len(diagnosis.queries)
    lines = [f"{lacking:,} of {_queries(diagnosis.answered)} miss something relevant among {top}"]
    if diagnosis.unanswered:
        lines.append(f"queries without a ranking, of which nothing is known: {_some(diagnosis.unanswered, shown)}")
    for diagnosed in diagnosis.queries[:shown]:
        lines += ["", *_render_query(diagnosed, diagnosis)]
    if lacking > shown:
        lines += ["", f"and {_queries(lacking - shown)} more"]
    never = [_render_never(one) for one in diagnosis.never_retrieved]
    lines += _section(f"never retrieved, among {top} of no query", never, shown)
    always = [_render_always(one, diagnosis.answered) for one in diagnosis.always_retrieved]
    return lines + _section(f"always retrieved, among {top} of almost every query and not relevant", always, shown)


def _render_query(diagnosed: QueryDiagnosis, diagnosis: Diagnosis) -> Iterator[str]:
    found = diagnosed.wanted - len(diagnosed.missing)
    yield f"{inert(diagnosed.query)}: {found:,} of {diagnosed.wanted:,} found"
    for one in diagnosed.missing:
        yield f"  missing        {_render_missing(one, diagnosed.searched, diagnosis.depth)}"
    if diagnosed.pushed_out_by:
        shown = [_render_intruder(one) for one in diagnosed.pushed_out_by[:_INTRUDERS_SHOWN]]
        rest = len(diagnosed.pushed_out_by) - len(shown)
        yield f"  pushed out by  {', '.join(shown)}{f' and {rest:,} more' if rest else ''}"


def _render_missing(one: MissingDocument, searched: int, depth: int) -> str:
    others = f" or {' or '.join(map(inert, one.alternatives))}" if one.alternatives else ""
    nowhere = f"not in the first {depth:,}" if searched == depth else f"not among the {searched:,} retrieved"
    where = nowhere if one.rank is None else f"rank {one.rank:,}"
    return f"{inert(one.document)}{others} (grade {one.grade}): {where}"


def _render_intruder(one: Intruder) -> str:
    judged = "unjudged" if one.grade is None else f"grade {one.grade}"
    return f"{one.rank:,}. {inert(one.document)} ({judged})"


def _render_never(one: NeverRetrieved) -> str:
    where = "nowhere in their rankings" if one.best_rank is None else f"rank {one.best_rank:,} at the best"
    return f"{inert(one.document)}: missed by {_queries(len(one.queries))}, {where}"


def _render_always(one: AlwaysRetrieved, answered: int) -> str:
    lacking = f"{one.blocking:,} of them miss something relevant"
    return f"{inert(one.document)}: for {round(one.share * answered):,} of {_queries(answered)}, {lacking}"


def _section(title: str, entries: Sequence[str], shown: int) -> list[str]:
    if not entries:
        return []
    rest = len(entries) - shown
    return ["", title, *(f"  {entry}" for entry in entries[:shown]), *([f"  and {rest:,} more"] if rest > 0 else [])]


def _some(names: Sequence[str], shown: int) -> str:
    rest = len(names) - shown
    return ", ".join(map(inert, names[:shown])) + (f" and {rest:,} more" if rest > 0 else "")


def _queries(count: int) -> str:
    return f"{count:,} {'query' if count == 1 else 'queries'}"
