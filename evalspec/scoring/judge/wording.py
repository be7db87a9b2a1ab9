"""Split texts into words, ignoring what judges change freely: quotes, spaces, punctuation, the script of digits.

Number words of common languages are recognised too, so that "forty-two" matches 42.
"""

import re
import unicodedata
from collections.abc import Iterable
from functools import lru_cache

from evalspec.base.foreign_text import normalize

_IN_WORDS_AND_NUMBERS = ".,:'-*"
_MEANINGFUL = "%‰#&@/§^"
"""Punctuation that distinguishes statements; all other punctuation is noise. Symbols such as € and + always count."""
_ALIKE = str.maketrans("’‘ʼ′`´−", "''''''-")
_NOT_A_NUMBER = ("<super>", "<sub>", "<fraction>")
"""Characters that NFKC would append to adjacent digits: 10² is not 102."""

_CONTRACTIONS = tuple(
    (re.compile(pattern, re.IGNORECASE), full)
    for pattern, full in (
        (r"\bcannot\b|\bcan't\b", "can not"),
        (r"\bwon't\b", "will not"),
        (r"\bshan't\b", "shall not"),
        (r"n't\b", " not"),
        (r"'re\b", " are"),
        (r"'ve\b", " have"),
        (r"'ll\b", " will"),
        (r"'m\b", " am"),
        (r"'s\b", " is"),
    )
)
_EMPHASIS = re.compile(
    # Within a word only where words are written without spaces, and before a Korean particle.
    r"(?<![0-9A-Za-z\u00c0-\u0dff\u1100-\u11ff\u1e00-\u1fff\uac00-\ud7ff*])"
    r"(\*{1,3})(?=[^\s*])([^*]++)(?<!\s)\1(?![0-9A-Za-z\u00c0-\u0dff\u1e00-\u1fff*])"
)
_WORD = re.compile(
    r"""
    (?: (?<!\S) | (?<=(?<!\S)') ) (?: -\.? | \. ) \d+(?:[.,:]\d+)*  # a sign or a leading point is part of a number
    | \d+(?:[.,:]\d+)*
    | (?<=\d)\* | \*(?=\s*-?\.?\d)                                  # an operator; next to words it is markup
    | [^\s\d.,:'*-]+
    """,
    re.VERBOSE,
)
_THOUSANDS = re.compile(r"-?\d{1,3}(?:,\d{3})+(?:\.\d+)?")
# Words for 1, 2, 3 and so on. A dot replaces a word that also means "a", or that another line has.
_COUNTED = (
    "· two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen seventeen eighteen"
    " nineteen",
    "eins zwei drei vier fünf sechs sieben acht neun zehn elf zwölf dreizehn vierzehn fünfzehn sechzehn siebzehn",
    "· deux trois quatre cinq · sept huit neuf dix onze douze treize quatorze quinze seize",
    "uno dos tres cuatro cinco seis siete ocho nueve diez once doce trece catorce quince dieciséis diecisiete",
    "· due tre quattro cinque sei sette otto nove dieci undici dodici tredici quattordici quindici sedici",
    "· dois três quatro cinco · sete oito nove dez onze doze treze · · dezesseis dezessete",
    "один два три четыре пять шесть семь восемь девять десять одиннадцать двенадцать тринадцать четырнадцать пятнадцать"
    " шестнадцать семнадцать восемнадцать девятнадцать",
    "واحد اثنان ثلاثة أربعة خمسة ستة سبعة ثمانية تسعة عشرة",
    "하나 둘 셋 넷 다섯 여섯 일곱 여덟 아홉 열",
    "· iki üç dört beş altı yedi sekiz dokuz",
    "jeden dwa trzy cztery pięć sześć siedem osiem dziewięć dziesięć jedenaście dwanaście trzynaście czternaście"
    " piętnaście szesnaście siedemnaście osiemnaście dziewiętnaście",
)
# Words for 10, 20, 30 up to 100.
_TENS = (
    "ten twenty thirty forty fifty sixty seventy eighty ninety hundred",
    "zehn zwanzig dreißig vierzig fünfzig sechzig siebzig achtzig neunzig hundert",
    "dix vingt trente quarante cinquante soixante septante huitante nonante cent",
    "diez veinte treinta cuarenta cincuenta sesenta setenta ochenta noventa cien",
    "dieci venti trenta quaranta cinquanta sessanta settanta ottanta novanta cento",
    "dez vinte trinta · cinquenta · · oitenta · cem",
    "десять двадцать тридцать сорок пятьдесят шестьдесят семьдесят восемьдесят девяносто сто",
    "· yirmi otuz kırk elli altmış yetmiş seksen doksan yüz",
    "· dwadzieścia trzydzieści czterdzieści pięćdziesiąt sześćdziesiąt siedemdziesiąt osiemdziesiąt dziewięćdziesiąt",
)
_COUNTED_ORDINALS = (
    "first second third fourth fifth sixth seventh eighth ninth tenth eleventh twelfth thirteenth fourteenth fifteenth"
    " sixteenth seventeenth eighteenth nineteenth",
    "erste zweite dritte vierte fünfte sechste siebte achte neunte zehnte elfte zwölfte dreizehnte vierzehnte"
    " fünfzehnte sechzehnte siebzehnte achtzehnte neunzehnte",
    "première deuxième troisième quatrième cinquième sixième septième huitième neuvième dixième onzième douzième"
    " treizième quatorzième quinzième seizième",
    "primero segundo tercero cuarto quinto sexto séptimo octavo noveno décimo undécimo duodécimo decimotercero"
    " decimocuarto decimoquinto decimosexto decimoséptimo decimoctavo decimonoveno",
    "primo · terzo quarto · sesto settimo ottavo nono · undicesimo dodicesimo tredicesimo quattordicesimo"
    " quindicesimo sedicesimo diciassettesimo diciottesimo diciannovesimo",
    "primeiro · terceiro · · · sétimo oitavo",
    "первый второй третий четвертый пятый шестой седьмой восьмой девятый десятый одиннадцатый двенадцатый"
    " тринадцатый четырнадцатый пятнадцатый шестнадцатый семнадцатый восемнадцатый девятнадцатый",
    "الأول الثاني الثالث الرابع الخامس السادس السابع الثامن التاسع العاشر",
    "첫째 둘째 셋째 넷째 다섯째 여섯째 일곱째 여덟째 아홉째 열째",
)
_ORDINAL_TENS = (
    "tenth twentieth thirtieth fortieth fiftieth sixtieth seventieth eightieth ninetieth hundredth",
    "zehnte zwanzigste dreißigste vierzigste fünfzigste sechzigste siebzigste achtzigste neunzigste hundertste",
    "dixième vingtième trentième quarantième cinquantième soixantième septantième huitantième nonantième centième",
    "· vigésimo trigésimo cuadragésimo quincuagésimo sexagésimo septuagésimo octogésimo nonagésimo centésimo",
    "· ventesimo trentesimo quarantesimo cinquantesimo sessantesimo settantesimo ottantesimo novantesimo ·",
    "· · · quadragésimo quinquagésimo",
    "десятый двадцатый тридцатый сороковой пятидесятый шестидесятый семидесятый восьмидесятый девяностый сотый",
)
_ONE_AND_ZEROS = ["thousand", "million", "billion", "tausend", "mille", "mil", "тысяча", "миллион"]
_OTHERS = {"5": "half halb halbe hälfte moitié mitad metà metade половина", "2": "twice"}
_ENDING = re.compile("[oaei]?[nrsm]?$|[оеыи][гм][оу]$|[ыи]ми$|[ыоиаеую][иеяюхм]$")
"""The ending of an ordinal that inflection changes: zehnten, décimas, пятого."""

_IN_FRENCH = (
    (re.compile(r"soixante[- ](?:et[- ])?(?=dix|onz|douz|treiz|quator|quinz|seiz)", re.IGNORECASE), "septante "),
    (re.compile(r"quatre[- ]vingt[- ](?=dix|onz|douz|treiz|quator|quinz|seiz)", re.IGNORECASE), "nonante "),
    (re.compile(r"quatre[- ]vingts?\b", re.IGNORECASE), "huitante"),
    (re.compile(r"quatre[- ]vingt(?=i)", re.IGNORECASE), "huitant"),
)
"""French sums and products of number words, and the one word for each in other varieties of French."""

_LONGEST_COMPOUND = 40


def split_words(text: str) -> list[str]:
    """Return the words, numbers and symbols of a text, in order and with their case.

    Contractions are expanded. A number is one word, without its unit and without commas between thousands, and with a
    zero before a leading point.
    """
    folded = normalize("NFC", "".join(map(_fold, strip_emphasis(text).translate(_ALIKE))))
    for contraction, full in _CONTRACTIONS:
        folded = contraction.sub(full, folded)
    found: list[str] = _WORD.findall(folded)
    return [_write_number(word) if word[-1].isdecimal() else word for word in found]


def strip_emphasis(text: str) -> str:
    """Return the text without the asterisks of Markdown emphasis such as *words*. Those of 5 * 3 are kept."""
    return _EMPHASIS.sub(r"\2", text)


def _write_number(word: str) -> str:
    if _THOUSANDS.fullmatch(word):
        return word.replace(",", "")
    sign = "-" if word[0] == "-" else ""
    return f"{sign}0{word[len(sign) :]}" if word[len(sign)] == "." else word


@lru_cache(maxsize=8192)
def _fold(character: str) -> str:
    """Return the plain form of a character, the character itself, or a space if it has no meaning."""
    if character.isdecimal():
        return str(unicodedata.decimal(character))
    if unicodedata.decomposition(character).startswith(_NOT_A_NUMBER):
        return f" {character} "
    plain = unicodedata.normalize("NFKC", character)
    category = unicodedata.category(plain[0])
    if category == "Cf":  # soft hyphens, joiners, marks of direction
        return ""
    if plain in _IN_WORDS_AND_NUMBERS or category[0] in "LMN":
        return plain
    if plain in _MEANINGFUL or category in ("Sc", "Sm", "So"):
        return f" {plain} "
    return " "


def strip_accents(text: str) -> str:
    """Return the text without combining marks and case, and with Hangul decomposed into letters."""
    decomposed = normalize("NFD", text.casefold())
    return "".join(character for character in decomposed if unicodedata.category(character) != "Mn")


def strip_latin_accents(word: str) -> str:
    """Return the word without accents of Latin letters. In other scripts, marks make different letters."""
    plain = ((character, strip_accents(character)) for character in word)
    return "".join(bare if bare and bare.isascii() else character for character, bare in plain)


def join_number_words(text: str) -> str:
    """Return the text with one word each for the French 70, 80 and 90, which are sums of 60 or multiples of 20."""
    for written, word in _IN_FRENCH:
        text = written.sub(word, text)
    return text


def _index(lines: Iterable[str]) -> dict[str, str]:
    """Return the digits of each word. A dot is a placeholder."""
    numbered = (pair for line in lines for pair in enumerate(line.split(), 1))
    return {strip_accents(word): str(value).rstrip("0") for value, word in numbered if word != "·"}


_ORDINALS = {
    _ENDING.sub("", word, count=1): digits for word, digits in _index(_COUNTED_ORDINALS + _ORDINAL_TENS).items()
}
_LEADING_DIGITS = (
    _index(_COUNTED + _TENS)
    | dict.fromkeys(_ONE_AND_ZEROS, "1")
    | {strip_accents(word): digits for digits, words in _OTHERS.items() for word in words.split()}
)
_ANY = "|".join(sorted(_LEADING_DIGITS, key=len, reverse=True))
_COMPOUND = re.compile(rf"(ein|{_ANY})(?:und|{_ANY})+(?:s?te[nrsm]?)?")
"""German and Italian write a number as one word: zweiundvierzig, zweiundvierzigste."""


def parse_leading_digits(word: str) -> str | None:
    """Return the digits that a number word begins with, without zeros at either end.

    Examples: fortieth: 4, zweiundvierzig: 2, ½: 5. None for any other word. `word` must have no accents.
    """
    if len(word) == 1 and not word.isdecimal():
        value = unicodedata.numeric(word, 0.0)
        return f"{value:f}".replace(".", "").strip("0") or None
    ordinal = _ORDINALS.get(word) or _ORDINALS.get(_ENDING.sub("", word, count=1))
    if ordinal:
        return ordinal
    compound = _COMPOUND.fullmatch(word) if len(word) <= _LONGEST_COMPOUND else None
    return _LEADING_DIGITS.get(compound[1] if compound else word, "1" if compound else None)
