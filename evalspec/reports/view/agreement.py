"""Tables of agreement between people, and shares with intervals, in views."""

from collections.abc import Iterable, Sequence

from evalspec.model import Agreement, AgreementMeasure
from evalspec.reports.view.parts import Column, Row, Table, Tone, Words, Wrap, cell, name, numbers, prose, row
from evalspec.verdict.wording import UNKNOWN


def build_agreement_table(
    rows: Sequence[tuple[Agreement | AgreementMeasure, Sequence[str], int]], counted: str
) -> Table:
    """Return a table of measures. A row is a measure, the two people of kappa, and the number of units.

    `counted`: what the units are.
    """
    columns = (
        Column("measure", wrap=Wrap.WORDS),
        *numbers("value"),
        Column("95 % interval"),
        *numbers(counted),
        Column(wrap=Wrap.WORDS),
    )
    return Table(columns, tuple(_build_row(*row) for row in rows))


def _build_row(one: Agreement | AgreementMeasure, people: Sequence[str], count: int) -> Row:
    between: Words = (": ", *join_words([name(who) for who in people], " and ")) if people else ()
    method = f"{one.interval_method} interval" if one.interval_method else ""
    return row(
        cell(one.measure, *between),
        cell(render_decimal(one.value)),
        cell(" – ".join(map(render_decimal, one.interval)) if one.interval else UNKNOWN, tone=Tone.QUIET),
        cell(f"{count:,}"),
        cell(*(prose(one.unknown) if one.unknown else (method,)), tone=Tone.QUIET),
    )


def join_words(parts: Iterable[Words], between: str) -> Words:
    """Return parts as one text."""
    return tuple(piece for number, part in enumerate(parts) for piece in ((between,) if number else ()) + part)


def render_decimal(value: float | None) -> str:
    """Return a measure with two decimals."""
    return UNKNOWN if value is None else f"{value:z.2f}".replace("-", "−")


def render_percent(value: float | None) -> str:
    """Return a share as per cent."""
    return UNKNOWN if value is None else f"{100 * value:z.0f} %"


def render_percents(ends: tuple[float, float] | None) -> str:
    """Return the interval of a share as per cent."""
    return f"{100 * ends[0]:.0f} – {100 * ends[1]:.0f} %" if ends else UNKNOWN
