"""Find the numbers of a text, with their units, and names with numbers such as AES-256-GCM."""

import re
from collections.abc import Iterator, Sequence
from decimal import Decimal

from msgspec import Struct

_NUMBER = r"\d{1,3}(?:[,'’\u00a0\u202f]\d{3})+(?:\.\d+)?(?!\d)|\d+[.,]\d+|\d+"
_TOKEN = re.compile(
    rf"""(?P<literal>(?<![\w.])(?:\d{{4}}-\d\d-\d\d|\d+(?:\.\d+){{2,}}|\d+(?:[:/]\d+)+)(?!\w))
    | (?<![\w.])(?P<low>{_NUMBER})(?:[-–—]|\s[–—]\s)(?P<high>{_NUMBER})(?![\d.-]*\d)
    | (?P<number>(?:(?<![\w)])[-−](?=\d))?(?:{_NUMBER}))
    | (?P<word>[^\W\d_][\w']*(?:[.]\d+)*(?:[-‑][\w]+(?:[.]\d+)*)*)
    | (?P<sign>[%$€£¥/°])""",
    re.VERBOSE,
)
_ALIASES = {
    "second": "s sec secs second seconds",
    "millisecond": "ms millisecond milliseconds",
    "minute": "min mins minute minutes",
    "hour": "h hr hrs hour hours",
    "day": "d day days",
    "week": "wk wks week weeks",
    "month": "mo month months",
    "year": "yr yrs year years",
    "quarter": "quarter quarters",
    "percent": "% percent pct",
    "dollar": "$ usd dollar dollars",
    "euro": "€ eur euro euros",
    "pound": "£ gbp pound pounds",
    "yen": "¥ jpy yen",
    "bit": "bit bits",
    "byte": "byte bytes",
    **{unit: unit for unit in ("kb", "mb", "gb", "tb", "pb", "kib", "mib", "gib", "tib", "kbps", "mbps", "gbps")},
    **{f"{prefix}bit": f"{prefix}bit {prefix}bits" for prefix in "kmgtp"},
}
_UNITS = {alias: unit for unit, aliases in _ALIASES.items() for alias in aliases.split()}
_PERIODS = frozenset({"second", "minute", "hour", "day", "week", "month", "year", "quarter"})
_CURRENCIES = frozenset({"dollar", "euro", "pound", "yen"})
_QUALIFIERS = frozenset({"business", "working", "calendar", "trading"})
_SCALES = {"hundred": 100, "thousand": 1_000, "million": 1_000_000, "billion": 1_000_000_000}
_ATTACHED_SCALES = {"k": 1_000, "K": 1_000, "M": 1_000_000}
"""Scales only without a blank, in this case: 5k requests. 5 K and 5 m are units."""
_BITS = re.compile("[KMGTP]b")
"""10 Gb are bits, 10 GB and 10 gb are bytes."""
_SPELLED = """zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen
    seventeen eighteen nineteen"""
_SPELLED_TENS = "twenty thirty forty fifty sixty seventy eighty ninety"
_SMALL, _TENS = _SPELLED.split(), _SPELLED_TENS.split()
_WORDS = {word: Decimal(value) for value, word in enumerate(_SMALL)}
_WORDS |= {word: Decimal(20 + 10 * n) for n, word in enumerate(_TENS)}
_WORDS |= {word: Decimal(value) for word, value in (("dozen", 12), ("twice", 2), ("half", "0.5"), ("½", "0.5"))}
_WORDS |= {word: Decimal(value) for word, value in (("¼", "0.25"), ("¾", "0.75"))}
_ONCE = "once"
_EACH = frozenset({"a", "an", "per", "each", "every"})
_WORDS |= {f"{tens}-{one}": _WORDS[tens] + n for tens in _TENS for n, one in enumerate(_SMALL[:10]) if n}
_FUNCTION_WORDS = """
    a about after all also an and any are as at be before below but by can could did do does during each
    either every fewer for from had has have he i if in into is it its least less may more most must no nor
    not of off on only or our out over per she should since so than that the their then there these they this
    those through times to under until up upon was we were when where which while will with within without
    would yet you your st nd rd th
"""
_NO_UNITS = frozenset(_FUNCTION_WORDS.split())
_FAR = 3
"""Words after a number among which its noun is: `5 active users` are users."""
_JOINT = re.compile(r"[ \t\n\u00a0\u202f]*|[-‑]")
_AND = re.compile(r"\s*(?:to|and|or)\s*")
_PARTS = re.compile(r"\d+(?:\.\d+)*|[^\W\d_]+")


class Quantity(Struct, frozen=True):
    """A number, or a name with numbers.

    `text`: as it is written. `value`: None for names, dates, times and versions. `unit`: in the singular; None if there
    is none. `rate`: what the unit is divided by. `nouns`: the words after the number, in the singular. `parts`: of a
    name, such as (aes, 256, gcm), or the one literal of a date. `is_loose`: there are blanks between the parts.
    """

    text: str
    value: Decimal | None = None
    unit: str | None = None
    rate: str | None = None
    nouns: tuple[str, ...] = ()
    parts: tuple[str, ...] = ()
    is_loose: bool = False

    @property
    def is_measured(self) -> bool:
        """Whether the unit is a unit of measure, not a counted thing."""
        return self.unit is not None and self.unit.rpartition(" ")[2] in _ALIASES


def list_quantities(text: str) -> list[Quantity]:
    """Return the numbers and the names with numbers of a text, in order.

    Numbers are read as in English: 1,000 is a thousand, and twelve is 12. A comma before one or two digits is decimal.
    """
    tokens = list(_TOKEN.finditer(text))
    return [found for place in range(len(tokens)) for found in _read(text, tokens, place)]


def list_words(text: str) -> frozenset[str]:
    """Return all words of a text in lower case, also those inside names: `gcm` of AES-256-GCM."""
    return frozenset(part.casefold() for part in _PARTS.findall(text))


def _read(text: str, tokens: Sequence[re.Match[str]], place: int) -> Iterator[Quantity]:
    token = tokens[place]
    word = (token["word"] or "").casefold()
    if token["literal"]:
        yield Quantity(token[0], parts=(token[0],))
    elif token["low"]:
        unit = _Unit.after(text, tokens, place)
        yield unit.make(text, token.start(), _parse(token["low"]))
        yield unit.make(text, token.start(), _parse(token["high"]))
    elif token["number"]:
        unit = _Unit.after(text, tokens, place)
        value = _parse(token["number"]) * unit.scale
        yield from _read_loose_name(text, tokens, place)
        yield unit.make(text, _find_start(text, tokens, place), value, _find_currency(text, tokens, place))
    elif word == _ONCE and place + 1 < len(tokens) and tokens[place + 1][0].casefold() in _EACH:
        yield Quantity(token[0], Decimal(1))
    elif word in _WORDS:
        unit = _Unit.after(text, tokens, place)
        if word != "one" or unit.name in _ALIASES:
            yield unit.make(text, token.start(), _WORDS[word] * unit.scale)
    elif any(character.isdigit() for character in word):
        yield from _read_name(token[0])


def _parse(number: str) -> Decimal:
    """Return the value of digits with separators."""
    plain = number.replace("−", "-")
    if re.fullmatch(r"-?\d+,(?:\d{1,2}|\d{4,})", plain):
        return Decimal(plain.replace(",", "."))
    return Decimal(re.sub(r"[,'’\u00a0\u202f]", "", plain))


def _read_name(written: str) -> Iterator[Quantity]:
    """Yield a name with numbers. In lower case before a hyphen, the word is an ordinary one: top-10, mid-2024."""
    parts = tuple(part.casefold() for part in _PARTS.findall(written))
    head = re.split(r"[-‑]", written)[0]
    if head.islower() and head.isalpha():
        yield from (Quantity(part, Decimal(part)) for part in parts if re.fullmatch(r"\d+(?:\.\d+)?", part))
    else:
        yield Quantity(written, parts=parts)


def _read_loose_name(text: str, tokens: Sequence[re.Match[str]], place: int) -> Iterator[Quantity]:
    """Yield an acronym with the number after it, such as `AES 256`, as a name."""
    before = tokens[place - 1] if place else None
    if before is None or not before["word"] or before[0].casefold() in _UNITS:
        return
    if before[0].isupper() and len(before[0]) > 1 and text[before.end() : tokens[place].start()] == " ":
        parts = tuple(part.casefold() for part in _PARTS.findall(f"{before[0]} {tokens[place][0]}"))
        yield Quantity(f"{before[0]} {tokens[place][0]}", parts=parts, is_loose=True)


def _find_currency(text: str, tokens: Sequence[re.Match[str]], place: int) -> str | None:
    """Return the currency before a number, as in $20 and EUR 20."""
    before = tokens[place - 1] if place else None
    if before is None or text[before.end() : tokens[place].start()].strip():
        return None
    unit = _UNITS.get(before[0].casefold())
    return unit if unit in _CURRENCIES and not before[0].islower() else None


def _find_start(text: str, tokens: Sequence[re.Match[str]], place: int) -> int:
    return tokens[place - 1].start() if _find_currency(text, tokens, place) else tokens[place].start()


class _Unit(Struct, frozen=True):
    """What follows a number. `end`: where it ends in the text."""

    end: int
    name: str | None = None
    rate: str | None = None
    nouns: tuple[str, ...] = ()
    scale: Decimal = Decimal(1)

    @classmethod
    def after(cls, text: str, tokens: Sequence[re.Match[str]], place: int) -> "_Unit":
        """Return the unit of the number at a place, also if the number begins a range: `10 to 20 days`."""
        following = list(_list_following(text, tokens, place))
        end, scale = tokens[place].end(), Decimal(1)
        if following and following[0].start() == end and following[0][0] in _ATTACHED_SCALES:
            scale *= _ATTACHED_SCALES[following[0][0]]
            end = following.pop(0).end()
        while following and following[0][0].casefold() in _SCALES:
            scale *= _SCALES[following[0][0].casefold()]
            end = following.pop(0).end()
        nouns = tuple(_to_singular(one[0]) for one in following[:_FAR] if one["word"])
        if not following:
            return cls(end, scale=scale)
        first = following[0][0].casefold()
        if first in _QUALIFIERS and len(following) > 1 and following[1][0].casefold() in _UNITS:
            name, last = f"{first} {_UNITS[following[1][0].casefold()]}", 1
        elif first in _UNITS:
            name, last = _name_unit(following[0][0]), 0
        elif first in _NO_UNITS or not following[0]["word"] or _is_year(tokens[place][0]):
            return cls(end, nouns=nouns, scale=scale)
        else:
            name, last = _to_singular(first), 0
        rate, ending = _find_rate(following[last:])
        return cls(ending, name, rate, nouns, scale)

    def make(self, text: str, start: int, value: Decimal, currency: str | None = None) -> Quantity:
        """Return the quantity with this unit. `currency`: stated before the number."""
        return Quantity(text[start : self.end], value, currency or self.name, self.rate, self.nouns)


def _name_unit(written: str) -> str:
    return f"{written[0].lower()}bit" if _BITS.fullmatch(written) else _UNITS[written.casefold()]


def _list_following(text: str, tokens: Sequence[re.Match[str]], place: int) -> Iterator[re.Match[str]]:
    """Yield the tokens after one, up to the first punctuation mark. Of `10 to 20 days`, those after 20."""
    end = tokens[place].end()
    if place + 2 < len(tokens) and tokens[place + 2]["number"] and tokens[place]["number"]:
        between = text[end : tokens[place + 2].start()]
        if _AND.fullmatch(between):
            place, end = place + 2, tokens[place + 2].end()
    for token in tokens[place + 1 : place + 8]:
        if not _JOINT.fullmatch(text[end : token.start()]):
            return
        if token["sign"] not in (None, "%", "/") or token["number"]:
            return
        yield token
        end = token.end()


def _find_rate(following: Sequence[re.Match[str]]) -> tuple[str | None, int]:
    """Return what the unit is divided by (`per user`, `/month`, `a day`), and where the whole unit ends."""
    end = following[0].end()
    if len(following) < 3 or not following[2]["word"]:
        return None, end
    by, what = following[1][0].casefold(), following[2][0].casefold()
    unit = _UNITS.get(what, _to_singular(what))
    if by in ("per", "/") or (by in ("a", "an", "each", "every") and unit in _PERIODS):
        return unit, following[2].end()
    return None, end


def _to_singular(word: str) -> str:
    plain = word.casefold()
    if plain.endswith("ies") and len(plain) > 4:
        return f"{plain[:-3]}y"
    return plain[:-1] if plain.endswith("s") and not plain.endswith("ss") and len(plain) > 3 else plain


def _is_year(number: str) -> bool:
    return len(number) == 4 and number.isdigit() and 1900 <= int(number) <= 2100
