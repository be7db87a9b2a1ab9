"""A diagnosis of rankings in words: as lines of plain text, and in pieces for reports that lay it out themselves."""

from collections.abc import Iterator, Sequence

from evalspec.foreign_text import inert
from evalspec.records import AlwaysRetrieved, Diagnosis, MissingDocument, NeverRetrieved, QueryDiagnosis
from evalspec.reporters.wording import Show

DOCUMENTS_SHOWN = 5
"""Of those that one query misses, and of those that stand in their place."""

_SHOWN = 10
_ALTERNATIVES_SHOWN = 3


def render_diagnosis(diagnosis: Diagnosis, shown: int = _SHOWN) -> list[str]:
    """What is missing and what stands in its place, the worst first; `shown`: how many of each list are written out."""
    lacking = len(diagnosis.queries)
    lines = [describe_whole(diagnosis)]
    if diagnosis.unanswered:
        lines.append(describe_unanswered(diagnosis, shown))
    for diagnosed in diagnosis.queries[:shown]:
        lines += ["", *_render_query(diagnosed, diagnosis)]
    if lacking > shown:
        lines += ["", f"and {_queries(lacking - shown)} more"]
    never = [f"{inert(one.document)}: {describe_never(one)}" for one in diagnosis.never_retrieved]
    lines += _section(title_never(diagnosis), never, shown)
    always = [
        f"{inert(one.document)}: {describe_always(one, diagnosis.answered)}" for one in diagnosis.always_retrieved
    ]
    return lines + _section(title_always(diagnosis), always, shown)


def describe_whole(diagnosis: Diagnosis) -> str:
    """How many queries miss something."""
    lacking = f"{len(diagnosis.queries):,} of {_queries(diagnosis.answered)}"
    return f"{lacking} miss something relevant among {_top(diagnosis)}"


def describe_unanswered(diagnosis: Diagnosis, shown: int, show: Show = inert) -> str:
    """The queries without a ranking by name."""
    named = _list(list(map(show, diagnosis.unanswered[:shown])), len(diagnosis.unanswered))
    return f"queries without a ranking, of which nothing is known: {named}"


def describe_found(diagnosed: QueryDiagnosis) -> str:
    """How much of what it wants a query has."""
    return f"{diagnosed.wanted - len(diagnosed.missing):,} of {diagnosed.wanted:,} found"


def describe_missing(one: MissingDocument, searched: int, depth: int) -> str:
    """Its grade, and where it was found further down."""
    nowhere = f"not in the first {depth:,}" if searched == depth else f"not among the {searched:,} retrieved"
    return f"({describe_grade(one.grade)}): {nowhere if one.rank is None else f'rank {one.rank:,}'}"


def describe_grade(grade: int | None) -> str:
    """`grade 2`, or that there is none."""
    return "unjudged" if grade is None else f"grade {grade}"


def describe_never(one: NeverRetrieved) -> str:
    """How many queries miss a document, and how near it comes."""
    where = "nowhere in their rankings" if one.best_rank is None else f"rank {one.best_rank:,} at the best"
    return f"missed by {_queries(len(one.queries))}, {where}"


def describe_always(one: AlwaysRetrieved, answered: int) -> str:
    """For how many queries a document is retrieved, and how many of them could do with its place."""
    lacking = f"{one.blocking:,} of them miss something relevant"
    return f"for {round(one.share * answered):,} of {_queries(answered)}, {lacking}"


def title_never(diagnosis: Diagnosis) -> str:
    """Over the documents that no query gets."""
    return f"never retrieved, among {_top(diagnosis)} of no query"


def title_always(diagnosis: Diagnosis) -> str:
    """Over the documents that almost every query gets in vain."""
    return f"always retrieved, among {_top(diagnosis)} of almost every query and not relevant"


def name_choice(one: MissingDocument, show: Show = inert) -> str:
    """A missing document with those that would have done as well."""
    others = list(map(show, one.alternatives[:_ALTERNATIVES_SHOWN]))
    rest = len(one.alternatives) - len(others)
    return " or ".join([show(one.document), *others, *([f"{rest:,} more"] if rest else [])])


def name_intruders(diagnosed: QueryDiagnosis, show: Show = inert) -> str:
    """`1. noise (grade 0), 2. x (unjudged) and 5 more`."""
    shown = [
        f"{one.rank:,}. {show(one.document)} ({describe_grade(one.grade)})"
        for one in diagnosed.pushed_out_by[:DOCUMENTS_SHOWN]
    ]
    return _list(shown, len(diagnosed.pushed_out_by))


def _render_query(diagnosed: QueryDiagnosis, diagnosis: Diagnosis) -> Iterator[str]:
    yield f"{inert(diagnosed.query)}: {describe_found(diagnosed)}"
    for one in diagnosed.missing[:DOCUMENTS_SHOWN]:
        yield f"  missing        {name_choice(one)} {describe_missing(one, diagnosed.searched, diagnosis.depth)}"
    if len(diagnosed.missing) > DOCUMENTS_SHOWN:
        yield f"  missing        and {len(diagnosed.missing) - DOCUMENTS_SHOWN:,} more"
    if diagnosed.pushed_out_by:
        yield f"  pushed out by  {name_intruders(diagnosed)}"


def _section(title: str, entries: Sequence[str], shown: int) -> list[str]:
    if not entries:
        return []
    rest = len(entries) - shown
    return ["", title, *(f"  {entry}" for entry in entries[:shown]), *([f"  and {rest:,} more"] if rest > 0 else [])]


def _list(shown: Sequence[str], total: int) -> str:
    rest = total - len(shown)
    return ", ".join(shown) + (f" and {rest:,} more" if rest else "")


def _top(diagnosis: Diagnosis) -> str:
    return f"the first {diagnosis.cutoff:,}"


def _queries(count: int) -> str:
    return f"{count:,} {'query' if count == 1 else 'queries'}"
