"""Number words of common languages, so that "forty-two" is recognized where a text has 42."""

import re
import unicodedata

# Words for 1, 2, 3 and so on. A dot leaves out a word that also means "a", or that another line has.
_COUNTED = (
    "· two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen seventeen eighteen"
    " nineteen",
    "first second third fourth fifth sixth seventh eighth ninth tenth eleventh twelfth",
    "eins zwei drei vier fünf sechs sieben acht neun zehn elf zwölf dreizehn vierzehn fünfzehn sechzehn siebzehn",
    "· deux trois quatre cinq · sept huit neuf dix onze douze treize quatorze quinze seize",
    "uno dos tres cuatro cinco seis siete ocho nueve diez once doce trece catorce quince dieciséis diecisiete",
    "· due tre quattro cinque sei sette otto nove dieci undici dodici tredici quattordici quindici sedici",
    "· dois três quatro cinco · sete oito nove dez onze doze treze · · dezesseis dezessete",
    "один два три четыре пять шесть семь восемь девять десять одиннадцать двенадцать тринадцать четырнадцать",
    "واحد اثنان ثلاثة أربعة خمسة ستة سبعة ثمانية تسعة عشرة",
    "하나 둘 셋 넷 다섯 여섯 일곱 여덟 아홉 열",
)
# Words for 10, 20, 30 up to 100.
_TENS = (
    "ten twenty thirty forty fifty sixty seventy eighty ninety hundred",
    "zehn zwanzig dreißig vierzig fünfzig sechzig siebzig achtzig neunzig hundert",
    "dix vingt trente quarante cinquante soixante · · · cent",
    "diez veinte treinta cuarenta cincuenta sesenta setenta ochenta noventa cien",
    "dieci venti trenta quaranta cinquanta sessanta settanta ottanta novanta cento",
    "dez vinte trinta · cinquenta · · oitenta · cem",
    "десять двадцать тридцать сорок пятьдесят шестьдесят семьдесят восемьдесят девяносто сто",
)
_ONE_AND_ZEROS = ["thousand", "million", "billion", "tausend", "mille", "mil", "тысяча", "миллион"]


def strip_accents(text: str) -> str:
    """The text without its combining marks, caseless; Hangul is taken apart into its letters."""
    decomposed = unicodedata.normalize("NFD", text.casefold())
    return "".join(character for character in decomposed if unicodedata.category(character) != "Mn")


def strip_latin_accents(word: str) -> str:
    """The word without the accents of its Latin letters; in other scripts marks make other letters."""
    plain = ((character, strip_accents(character)) for character in word)
    return "".join(bare if bare and bare.isascii() else character for character, bare in plain)


_LEADING_DIGITS = {
    strip_accents(word): str(value).rstrip("0")
    for line in (*_COUNTED, *_TENS)
    for value, word in enumerate(line.split(), 1)
    if word != "·"
} | dict.fromkeys(_ONE_AND_ZEROS, "1")
_ANY = "|".join(sorted(_LEADING_DIGITS, key=len, reverse=True))
_COMPOUND = re.compile(rf"(ein|{_ANY})(?:und|{_ANY})+")
"""German and Italian write a number as one word: zweiundvierzig."""
_LONGEST_COMPOUND = 40


def find_leading_digits(word: str) -> str | None:
    """The digits that a number word begins with, without zeros at the end (forty: 4, zweiundvierzig: 2), or None.

    `word` has no accents.
    """
    if len(word) == 1 and not word.isdecimal():
        value = unicodedata.numeric(word, 0.0)
        return str(int(value)).rstrip("0") or None
    compound = _COMPOUND.fullmatch(word) if len(word) <= _LONGEST_COMPOUND else None
    return _LEADING_DIGITS.get(compound[1] if compound else word, "1" if compound else None)
