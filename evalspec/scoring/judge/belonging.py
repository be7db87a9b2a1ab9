"""Check that the statements a judge extracts from a text come from that text.

Judges paraphrase, resolve pronouns and repeat the question, so only a statement without any content word of its source
is refused. Two words match if most of their beginning is the same, if one contains the other, or if they are the same
number in digits and in words. A date or a time is one word, and matches any of its numbers. What only greets, thanks or
offers help states nothing: no judge has to make statements of it.
"""

import math
import re
from collections import defaultdict
from collections.abc import Iterable
from itertools import pairwise, product

from evalspec.scoring.judge.wording import join_number_words, parse_leading_digits, split_words, strip_accents

_SHARED_BEGINNING = 0.6
"""Two forms of a word match if they share this part of the shorter form, and at least three letters."""
_SHORTEST_BEGINNING = 3
_SHORTEST_INSIDE, _LONGEST_COMPOUND = 4, 40

_FUNCTION_WORDS = """
st nd rd th eme º ª ca approx
a about all also am an and any are as at be because been being both but by can could did do does during
each either else even every for from had has have having he her here hers him his how i if in into is it its itself just
like may me might more most much must my no nor not of on one only or other our own same she should so some
such than that the their them then there these they this those through to too until us very was we were what
when where which while who whom whose why will with within without would yes you your never ever yet ok okay
der die das den dem des ein eine einen einem einer eines und oder aber ist sind war waren wird werden wurde wurden hat
haben hatte in im am an auf aus bei mit nach von vom zu zum zur fur als auch nicht kein keine es er sie wir ich man sich
dass wenn wie was wer ja nein nur noch so um durch uber
le la les un une des du de d l et ou mais est sont etait ete a ont au aux en dans par pour sur avec sans ne pas que qui
qu ce cette ces il elle ils elles on se s son sa ses plus oui non si c n y
el los las una unos unas del y o pero es son era fue fueron ha han al en con por para sin no que se su sus lo como mas
si muy este esta
il lo gli i di e ma sono da nel nella con per che non si come piu
o os as um uma do da dos das em no na nos nas com por para nao sim e mas foi sao ao
de het een en van is zijn was op te met voor niet ook ja nee
и в во не на с со что как по из за у от до же бы это он она они мы я да нет но или был была было были для к о об при
의 은 는 이 가 을 를 에 에서 와 과 도 네 예 아니요 입니다 있습니다
في من على الى عن ان هو هي كان كانت هذا هذه التي الذي و لا نعم ما مع
的 了 是 在 和 有 不 也 这 那 个 与 为 一 は が を に の で と も です ます した して する いる ある はい
"""
_IGNORED = frozenset(strip_accents(word) for word in _FUNCTION_WORDS.split())

_IDEOGRAPHS = "\u2e80-\u2fdf\u3400-\u9fff\uf900-\ufaff\U00020000-\U0003ffff"
"""Each character is a word."""
_UNSPACED = "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u309f"
"""Thai, Lao, Burmese, Khmer and hiragana are written without spaces, so each pair of characters counts as a word."""
_PART = re.compile(f"[{_IDEOGRAPHS}]|(?P<unspaced>[{_UNSPACED}]{{3,}})|[^{_IDEOGRAPHS}{_UNSPACED}]+|[{_UNSPACED}]+")

_DATE = re.compile(
    r"""
    (?<![\d.,:])
    (?: (\d{4}) \s?[-/.年년]\s? (\d{1,2}) \s?[-/.月월]\s? (\d{1,2}) [日일]?  # 2024-01-05
      | (\d{1,2}) ([-/.]) (\d{1,2}) \5 (\d{4}|\d{2})                        # 05.01.2024, 1/5/24
      | (\d{1,2}) \. (\d{1,2}) \.                                           # 5.1.
    )
    (?![.,:]?\d)
    """,
    re.VERBOSE,
)
_SPACED_THOUSANDS = re.compile(r"(?<![\d.,:])[1-9]\d{0,2}(?:[ \u00a0\u2009\u202f'’]\d{3})+(?!\d)")
_POINTED_THOUSANDS = re.compile(r"[1-9]\d{0,2}(?:\.\d{3})+(?:,\d+)?")
_LAST_SHORT_YEAR = 68
"""The last short year in this century, as in POSIX: 68 is 2068, and 69 is 1969."""
_CLOCK = ":"
"""Separates the numbers of a date or a time within one word."""


_BEGINNINGS = """
absolute answer anything apolog appreciat ask assist certain clarif contact course day dear definite detail enjoy
excellent feel find free further glad good great happy hear hello help hesitat hey hi hope know let patien pleas
question reach regard sorry sure thank trouble understand unfortunat welcome wish worr
anfrage bei dank damen danke entschuldig frage freu freundlich geehrt gern gruß grüß guten hallo helfe herren hilf hoff
interesse jederzeit leider lieb meld nachricht natürlich selbstverständlich tag team tun verfügung weiter wünsch zöger
aide avec besoin bien bonjour bonne comprends contacte cordial demande disposition désolé espère hésite journée
malheureusement merci message plaisir précision ravi reste répon serai sûr votre vous écoute
atento ayud buen claro consult duda dude día encanta espero estaré gracias gusto hola información lamentabl necesit
pregunta quedo saludo sí tengas útil aiut assistenza buon certo ciao client contatt cordiali disposizione domand
felice gentil grazie piacere purtroppo richiesta ringrazi salut spero stato util
agrade ajud boa contat dúvida feliz infelizmente mensagem obrigad olá pergunt prazer tarde tenha ótimo
bedankt bericht fijne graag helaas hoop laat vraag vrag weten dig fler fråg gärna hej hjälp hoppas hör tack tyvärr
chętnie dobry dzień dzięk kontakt nadziej niestety pomo prosz pyta допомо дяку жаль запитан звертай маєте сподіва якщо
благодар буд вопрос всего день добр если есть ещё здравств надеюсь обращ пожалуйста помо рад сожалению спасибо ще
감사 기꺼이 다른 도와 도움 되셨 드리 문의 바랍니다 안녕 언제든 있으시면 주세요 주셔서 질문
başka duyar lütfen maalesef memnun merhaba mutlu olmak size soru sorun teşekkür umarım varsa yardım
آمل أخرى أسئلة التواصل تتردد سؤال شكر لديك مساعد مرحب مفيد يسعد يكون
आपक आशा करके कृपया कोई खुशी धन्यवाद नमस्त पूछ प्रश्न मदद मिली मुझे यदि लिए सहायता हों होगी
"""
"""Beginnings of words. Those of up to three letters are whole words."""
_LONGEST_WHOLE = 3
_UNSPACED = """
一个 为您 以上 信息 其他 咨询 好的 如有 希望 帮助 帮您 当然 很好 很高兴 您 您好 愉快 感谢 我们 我来 提问 服务 欢迎
祝您 等待 耐心 联系 解答 谢谢 这是 问题 随时 ありがとう いたしま いただ お問い合わせ お役に立て お手伝い お待たせ
お気軽に お願い ください こんにちは ご不明な点 ございま ご質問 よろしく 今後とも 喜んで 幸い
"""
_SPACED = "|".join(word + (r"\w*" if len(word) > _LONGEST_WHOLE else r"(?!\w)") for word in _BEGINNINGS.split())
_COURTESY = re.compile(rf"\b(?:{_SPACED})|{'|'.join(_UNSPACED.split())}", re.IGNORECASE)
"""Words of greetings, thanks, wishes, regrets and offers to help."""

_CODE_AND_LINKS = re.compile(r"```.*?(?:```|\Z)|https?://\S+", re.DOTALL)
_SENTENCE_END = re.compile(r"(?<=[.!?؟।])\s+|(?<=[。！？])|\n")
_STATES_NOTHING = (":", "：", "?", "？", "؟")
"""Ends of introductions and questions."""


def find_unsupported(statements: Iterable[str], source: str) -> str | None:
    """Return the first statement without any content word of the source, or None.

    Statements without content words, such as "Yes.", and sources without them are not checked.
    """
    known = _Vocabulary(source)
    if not known.words:
        return None
    for statement in statements:
        words = content_words(statement)
        if words and not any(known.has(word) for word in words):
            return statement
    return None


def compute_coverage(statements: Iterable[str], source: str) -> float:
    """Return the share of the source's content words that occur in the statements; 1 if the source has none."""
    words = content_words(source)
    found = _Vocabulary(" \n".join(statements))
    return sum(map(found.has, words)) / len(words) if words else 1.0


def content_words(text: str) -> frozenset[str]:
    """Return the words that carry a text's meaning, without case and accents, and with numbers in one notation."""
    text = _SPACED_THOUSANDS.sub(_join_digits, _DATE.sub(_join_date, join_number_words(text)))
    words = (word for written in split_words(text) for word in _read_word(written))
    return frozenset(word for word in words if word not in _IGNORED and any(map(str.isalnum, word)))


def strip_courtesies(text: str) -> str:
    """Return the sentences of a text, one a line, without code, links, introductions, questions and courtesies.

    At least half of the content words of a courtesy are words of greetings, thanks, wishes and the like.
    """
    sentences = dict.fromkeys(map(str.strip, _SENTENCE_END.split(_CODE_AND_LINKS.sub("\n", text))))
    return "\n".join(sentence for sentence in sentences if _may_state(sentence))


def _may_state(sentence: str) -> bool:
    left = content_words(_COURTESY.sub(" ", sentence))
    return 2 * len(left) > len(content_words(sentence)) and not sentence.endswith(_STATES_NOTHING)


class _Vocabulary:
    """The content words of a text, searchable for related words."""

    def __init__(self, text: str) -> None:
        spaced = (number[0] for number in _SPACED_THOUSANDS.finditer(text))  # 5 200 may be two numbers
        words = content_words(text).union(*([_read_number(part) for part in split_words(one)] for one in spaced))
        self.words = words
        self._joined = " ".join(words)
        self._by_beginning = defaultdict(list)
        for word in words:
            self._by_beginning[word[:_SHORTEST_BEGINNING]].append(word)
        numbers = [word for word in words if word[-1].isdecimal()]
        times = [word for word in numbers if _CLOCK in word]
        self._in_times = {part for time in times for part in _split_number(time)}
        self._in_numbers = {part for number in numbers for part in _split_number(number)}
        self._digits = self._in_times.union(numbers)
        self._in_words = {digits for word in words if (digits := parse_leading_digits(word))}

    def has(self, word: str) -> bool:
        """Return whether the text has the word or a related one."""
        if word in self.words:
            return True
        if word[-1].isdecimal():
            return self._has_digits(word)
        return self._has_form(word) or self._has_number(word)

    def _has_digits(self, word: str) -> bool:
        parts, written = _split_number(word), [word]
        if _CLOCK in word:
            known, written = self._in_numbers, parts
        else:
            known = self._in_times
        return not known.isdisjoint(parts) or any(_is_part_of(*pair) for pair in product(self._in_words, written))

    def _has_form(self, word: str) -> bool:
        if any(_begin_alike(word, other) for other in self._by_beginning[word[:_SHORTEST_BEGINNING]]):
            return True
        if not _SHORTEST_INSIDE <= len(word) <= _LONGEST_COMPOUND:
            return False
        ends = range(_SHORTEST_INSIDE, len(word) + 1)
        inner = (word[start:end] for end in ends for start in range(end - _SHORTEST_INSIDE + 1))
        return word in self._joined or any(part in self.words for part in inner)

    def _has_number(self, word: str) -> bool:
        leading = parse_leading_digits(word)
        if leading is None:
            return False
        return leading in self._in_words or any(_is_part_of(leading, digits) for digits in self._digits)


def _begin_alike(one: str, two: str) -> bool:
    shorter = min(len(one), len(two))
    enough = max(_SHORTEST_BEGINNING, math.ceil(_SHARED_BEGINNING * shorter))
    return shorter >= enough and one[:enough] == two[:enough]


def _is_part_of(leading: str, number: str) -> bool:
    """Return whether a number word can be part of a number: 42 contains 4 (forty) and 2 (two)."""
    digits = "".join(filter(str.isdecimal, number)).rstrip("0")
    return digits.startswith(leading) or digits.endswith(leading)


def _join_date(date: re.Match[str]) -> str:
    """Return a date as one word: its numbers in order, and a short year with its century."""
    numbers = [group for group in date.groups() if group and group[0].isdecimal()]
    if len(numbers) > 2 and max(map(len, numbers)) == 2:
        numbers[-1] = str(int(numbers[-1]) + (2000 if int(numbers[-1]) <= _LAST_SHORT_YEAR else 1900))
    return f" {_CLOCK.join(numbers)} "


def _join_digits(number: re.Match[str]) -> str:
    return "".join(filter(str.isdecimal, number[0]))


def _read_word(written: str) -> Iterable[str]:
    """Return the word without accents, its parts if its script has no spaces, or a number in one notation."""
    return [_read_number(written)] if written[-1].isdecimal() else _segment(strip_accents(written))


def _read_number(written: str) -> str:
    """Return a number without sign and redundant zeros, with a decimal point; a date, time or version by its parts."""
    number = written.removeprefix("-")
    if _POINTED_THOUSANDS.fullmatch(number):
        number = number.replace(".", "")
    parts = [part.lstrip("0") or "0" for part in re.split("[.,:]", number)]
    if len(parts) > 2 or _CLOCK in number:
        return _CLOCK.join(parts)
    fraction = number[len(number.rstrip("0123456789")) :].rstrip("0") if len(parts) > 1 else ""
    return f"{parts[0]}.{fraction}" if fraction else parts[0]


def _split_number(number: str) -> list[str]:
    return re.split("[.:]", number)


def _segment(word: str) -> Iterable[str]:
    """Yield the word, or its parts if its script has no spaces."""
    for part in _PART.finditer(word):
        if part["unspaced"]:
            yield from map("".join, pairwise(part[0]))
        else:
            yield part[0]
