"""Find what must not be published: personal data, keys, and text that a team declares private.

Phone numbers are found by `phonenumbers`, keys by `detect-secrets`, and the check digits of IBANs and cards are
computed by `python-stdnum`. None of them connects to anything or downloads data.
"""

import html
import ipaddress
import re
import unicodedata
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache, lru_cache
from itertools import accumulate, chain, islice, takewhile
from typing import Any
from urllib.parse import unquote

from msgspec import Struct

from evalspec.base.errors import InvalidInput, MissingPackage, Problem
from evalspec.curation.gold.folding import fold
from evalspec.curation.gold.redaction import find_terms

CUSTOMER = "customer"
"""The kind of a customer's term, which nobody can allow."""
CUSTOMER_NAME = "customer_name"
PERSON = "person"
PRIVATE = "private"
_SHOWN = 2
_CACHED = 4096
"""Texts whose replacement is remembered: passages are retrieved again and again."""
_LONG = 8
_EXTRA = "publish"
_REGION = "US"
"""Where phone numbers without a country code are looked for."""
_NOT_KEYS = frozenset({"Base64HighEntropyString", "HexHighEntropyString", "KeywordDetector", "IPPublicDetector"})
"""Detectors of detect-secrets that find hashes, ordinary sentences, or what is found here already."""

_FULL_STOPS = str.maketrans("。｡", "..")
"""The ideographic full stops separate the parts of a domain too."""
_EMAIL = re.compile(r"(?<![\w.+-])[\w.+-]+@[\w-]+(?:\.[\w-]+)+")
_IPV4 = re.compile(r"(?<![\w.])\d{1,3}(?:\.\d{1,3}){3}(?!\w|\.\d)")
_IPV6 = re.compile(r"(?<![\w:.])[0-9a-fA-F]{0,4}(?::[0-9a-fA-F]{0,4}){2,7}(?![\w:])")
_IBAN = re.compile(r"(?<![A-Za-z0-9])(?=([A-Za-z]{2}\d{2}(?:[\s._/,:|·–—-]{0,3}[A-Za-z0-9]){11,30}))")
_INTERNATIONAL = re.compile(r"(?<![\w.,:/-])00(?=[1-9])")
"""What may be written for the plus of a phone number."""
_SHORTEST_IBAN = 15
_CARDS = (
    re.compile(r"(?<![\w.])\d+(?:[ -]\d+)*(?!\w)"),
    re.compile(r"(?<![\w.])\d{3,}(?:[\s._/,;:|·–—-]{1,3}\d{3,})*(?!\w)"),
)
"""Numbers in groups of any size with a blank or hyphen between them, or in longer groups with other separators."""
_CARD_LENGTHS = range(13, 20)
_CARD_STARTS = "3456"
_SECONDS = 5.0
"""How long a pattern may take for one text."""

_KEY = re.compile(
    r"""(?<![A-Za-z0-9])(?:
    sk-(?=[\w-]{0,99}\d)[\w-]{16,}                          # OpenAI, Anthropic, OpenRouter
    | (?:gh[opsur]|github_pat|glpat|hf|npm|pypi)[_-](?=[\w-]{0,99}\d)\w[\w-]{19,}
    | xox[a-z]-[\w-]{10,} | xapp-[\w-]{10,}            # Slack
    | A(?:KI|SI)A[A-Z0-9]{16}(?![A-Za-z0-9])           # AWS
    | AIza[\w-]{30,}                                   # Google
    | do[opr]_v1_[0-9a-f]{32,}                         # DigitalOcean
    | (?:Account|SharedAccess)Key=[\w+/]{20,}          # Azure
    | eyJ[\w-]{8,}\.eyJ[\w-]{8,}                       # JSON Web Tokens
    | (?:B|b)earer\s+(?=[\w.~+/-]*\d)[\w.~+/-]{16,}
    | -----BEGIN\ [A-Z ]{0,40}PRIVATE\ KEY
    )""",
    re.VERBOSE,
)
"""Keys of services that detect-secrets does not know, or knows in an older form only."""
_LETTERS_OF_NAME = 3

Finder = Callable[[str], Iterator[str]]


class FoundTerm(Struct, frozen=True):
    """Something that must not be published. `shown`: its beginning, never all of it."""

    kind: str
    shown: str


class Scrubber:
    """Finds what must not be published. `private`: regular expressions. `terms`: of all grants.

    `customers`: their names. `people`: names and emails of the annotators.

    Raises:
        InvalidInput: A pattern is not a regular expression.
        MissingPackage: The extra `publish` is not installed.
    """

    def __init__(
        self, private: Sequence[str], terms: Sequence[str], customers: Sequence[str] = (), people: Sequence[str] = ()
    ) -> None:
        names = [name for name in people if sum(map(str.isalpha, name)) >= _LETTERS_OF_NAME]
        patterns = [_compile_private(pattern) for pattern in private]
        self.finders: Mapping[str, Finder] = {
            "email": lambda text: _list_matches(_EMAIL, text),
            "ip_address": _find_addresses,
            "iban": _find_ibans,
            "card": _find_cards,
            "phone": _find_phones,
            "key": _find_keys,
            PRIVATE: lambda text: (hit for find in patterns for hit in find(text)),
            CUSTOMER: lambda text: _list_terms(text, terms),
            CUSTOMER_NAME: lambda text: _list_terms(text, customers),
            PERSON: lambda text: _list_terms(text, names),
        }
        _load_detectors()

    def find(self, text: str) -> list[FoundTerm]:
        """Return the hits in a text, by kind. Each kind is reported once.

        The text is searched as it is, where a zero-width space separates words, and folded, where it does not. Both are
        done again without escapes of urls and HTML.
        """
        plain = _to_plain(text)
        forms = dict.fromkeys((text, fold(text, keep_case=True).text, plain, fold(plain, keep_case=True).text))
        found = {
            kind: next((hit for form in forms for hit in finder(form)), "") for kind, finder in self.finders.items()
        }
        return [FoundTerm(kind, _mask(hit)) for kind, hit in found.items() if hit]


class Tokens:
    """Replaces personal data and keys by tokens such as `[phone-1]`. The same value gets the same token.

    Raises:
        MissingPackage: The extra `publish` is not installed.
    """

    def __init__(self) -> None:
        self._scrubber = Scrubber((), ())
        self._known: dict[tuple[str, str], str] = {}
        self.replace = lru_cache(_CACHED)(self._replace)

    def count(self) -> Counter[str]:
        """Return the number of different values by kind."""
        return Counter(kind for kind, _ in self._known)

    def _replace(self, text: str) -> str:
        """Return a text without hits. What hides behind escapes or invisible characters is replaced in plain text."""
        for form in (text, fold(_to_plain(text), keep_case=True).text):
            replaced = form
            for kind, finder in self._scrubber.finders.items():
                for hit in sorted(set(finder(replaced)), key=len, reverse=True):
                    replaced = _compile_hit(hit).sub(self._find_token(kind, hit), replaced)
            if not self._scrubber.find(replaced):
                return replaced
        return "[removed]"

    def _find_token(self, kind: str, hit: str) -> str:
        value = re.sub(r"[\W_]", "", hit).casefold()
        return self._known.setdefault((kind, value), f"[{kind}-{self.count()[kind] + 1}]")


def _compile_hit(hit: str) -> re.Pattern[str]:
    """Return a pattern for a hit as it is, or with other separators than the finder's."""
    spread = r"[\W_]{0,3}".join(map(re.escape, re.findall(r"[^\W_]", hit)))
    return re.compile(rf"{re.escape(hit)}|(?:\+|00)?{spread}" if spread else re.escape(hit), re.IGNORECASE)


def _to_plain(text: str) -> str:
    """Return a text without escapes of urls and HTML, with the digits and full stops of ASCII."""
    unescaped = html.unescape(unquote(text)).translate(_FULL_STOPS)
    return re.sub(r"\d", lambda digit: str(unicodedata.decimal(digit[0])), unescaped)


def _mask(hit: str) -> str:
    return f"{hit[:_SHOWN]}…" if len(hit) >= _LONG else "…"


def _compile_private(pattern: str) -> Finder:
    """Return a finder for a pattern that a person wrote, which has a time limit.

    Raises:
        InvalidInput: The text is not a regular expression. The finder raises it for a pattern that takes too long.
    """
    import regex

    try:
        compiled = regex.compile(pattern, regex.IGNORECASE)
    except regex.error as error:
        message = f"not a regular expression: {error}"
        raise InvalidInput(Problem(message, "fix it", "set.yaml", field="private")) from error

    def find(text: str) -> Iterator[str]:
        try:
            yield from (hit[0] for hit in compiled.finditer(text, timeout=_SECONDS, concurrent=True) if hit[0])
        except TimeoutError as error:
            message = f"the pattern {pattern} takes longer than {_SECONDS:g} s on a text"
            raise InvalidInput(
                Problem(message, "write it without nested repetitions", "set.yaml", field="private")
            ) from error

    return find


def _list_matches(pattern: re.Pattern[str], text: str) -> Iterator[str]:
    return (match[0] for match in pattern.finditer(text) if match[0])


def _list_terms(text: str, terms: Sequence[str]) -> Iterator[str]:
    return (text[one.start : one.end] for one in find_terms(text, terms))


def _find_addresses(text: str) -> Iterator[str]:
    for pattern in (_IPV4, _IPV6):
        for hit in _list_matches(pattern, text):
            try:
                ipaddress.ip_address(hit)
            except ValueError:
                continue
            if len(hit) > len("::"):
                yield hit


def _find_ibans(text: str) -> Iterator[str]:
    from stdnum import iban

    for hit in _IBAN.finditer(text):
        letters = re.sub(r"[\W_]", "", hit[1])
        starts = (letters[:stop] for stop in range(len(letters), _SHORTEST_IBAN - 1, -1))
        yield from islice(filter(iban.is_valid, starts), 1)


def _find_cards(text: str) -> Iterator[str]:
    """Yield numbers with the length, the first digit and the check digit of a card."""
    from stdnum import luhn

    for run in chain.from_iterable(pattern.finditer(text) for pattern in _CARDS):
        groups = re.findall(r"\d+", run[0])
        for first in range(len(groups)):
            for number in takewhile(
                lambda one: len(one) < _CARD_LENGTHS.stop, accumulate(groups[first : first + _CARD_LENGTHS.stop])
            ):
                if len(number) in _CARD_LENGTHS and number[0] in _CARD_STARTS and luhn.is_valid(number):
                    yield number


def _find_phones(text: str) -> Iterator[str]:
    from phonenumbers import Leniency, PhoneNumberMatcher

    line = _INTERNATIONAL.sub("+", text.replace("\n", " "))
    yield from (match.raw_string for match in PhoneNumberMatcher(line, None))
    strict = PhoneNumberMatcher(line, _REGION, leniency=Leniency.STRICT_GROUPING)
    yield from (match.raw_string for match in strict)


def _find_keys(text: str) -> Iterator[str]:
    yield from _list_matches(_KEY, text)
    for detector in _load_detectors():
        yield from detector.analyze_string(text)


@cache
def _load_detectors() -> tuple[Any, ...]:
    """Return the detectors of detect-secrets. They are used directly, so that no comment in a text switches one off."""
    for package in ("stdnum", "phonenumbers", "detect_secrets"):
        try:
            __import__(package)
        except ImportError as error:
            raise MissingPackage("finding personal data", package, _EXTRA) from error
    from detect_secrets.core.plugins.util import get_mapping_from_secret_type_to_class

    kinds = get_mapping_from_secret_type_to_class().values()
    return tuple(kind() for kind in sorted(kinds, key=lambda kind: kind.__name__) if kind.__name__ not in _NOT_KEYS)
