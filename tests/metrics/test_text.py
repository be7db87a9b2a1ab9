import unicodedata

import pytest
import sacrebleu
from hypothesis import example, given
from hypothesis import strategies as st

from evalspec.base.errors import MetricError
from evalspec.model import AgentReply, Exchange, Sample
from evalspec.scoring.metrics.text import _is_apart as is_apart
from evalspec.scoring.metrics.text import _Outline as Outline
from evalspec.scoring.metrics.text import (
    compute_bleu,
    compute_chrf,
    compute_rouge,
    compute_substring_match,
    compute_word_match,
    find_spelling,
    normalise,
)

NAMES = ["string_match", "exact_match", "rouge", "bleu", "chrf"]
WORDS = ["the", "cat", "sat", "on", "Mat", "don't", "3.5", "x_y", "naïve", "서울은", "수도입니다", "Ω", "."]

sentences = st.lists(st.sampled_from(WORDS), min_size=1, max_size=12).map(" ".join)
references = st.lists(sentences, min_size=1, max_size=3)


def exchange(response, *expected) -> Exchange:
    return Exchange(Sample("s", "q", references=expected), AgentReply(response))


@pytest.mark.parametrize(
    ("response", "expected", "occurs", "equal"),
    [
        ("Paris", ["Paris"], 1, 1),
        ("It is  PARIS,\nof course.", ["paris, of"], 1, 0),
        (" the\tSTRASSE ", ["The Straße"], 1, 1),
        ("caf" + unicodedata.normalize("NFD", "é"), ["CAFÉ"], 1, 1),
        ("café", ["cafe"], 0, 0),
        ("Lyon", ["Paris", "lyon"], 1, 1),
        ("Par", ["Paris"], 0, 0),
        ("ΟΔΟΣ", ["οδός", "οδος"], 1, 1),
        ("４２", ["42"], 1, 1),
        ("42", ["٤２"], 1, 1),
        ("Donau\u00addampfer", ["Donaudampfer"], 1, 1),
        ("0.5", [".5"], 0, 0),
        ("about .5", [".5"], 1, 0),
        ("5.3", ["5."], 0, 0),
        ("1½", ["½"], 0, 0),
        ("½ cup", ["½"], 1, 0),
        ("2²", ["2"], 0, 0),
        ("2²", ["²"], 0, 0),
        ("10⁻⁵", ["10"], 0, 0),
        ("10⁻⁵ m", ["10⁻⁵"], 1, 0),
        ("I don’t know", ["i don't know"], 1, 1),
        ("It is Alice‘s", ["Alice's"], 1, 0),
        ("п'ять", ["пʼять"], 1, 1),
        ("the “Team” plan", ['"team" plan'], 1, 0),
        ("das „Team”", ['das "Team"'], 1, 1),
        ("an e‑mail", ["e-mail"], 1, 0),
        ("an e-mail", ["e‐mail"], 1, 0),
        ("I can’t say", ["can"], 0, 0),
        ("I canʼt say", ["can"], 0, 0),
        ("pages 10–15", ["10-15"], 0, 0),
        ("1,000 seats", ["1000"], 0, 0),
        ("2GB", ["2 GB"], 0, 0),
    ],
)
def test_matches(response, expected, occurs, equal, build_scorer):
    assert build_scorer("string_match")(exchange(response, *expected)).value == occurs
    assert build_scorer("exact_match")(exchange(response, *expected)).value == equal


def test_a_miss_names_the_longer_word(build_scorer):
    score = build_scorer("string_match")(exchange("We sell  LAMPS.", "sofa", "lamp"))
    assert (score.value, score.reason) == (0, "'lamp' occurs only within 'LAMPS'; answered 'We sell LAMPS.'")
    assert build_scorer("string_match")(exchange("lamps and a lamp", "lamp")).value == 1


@pytest.mark.parametrize(
    ("response", "expected", "within"),
    [
        ("Die  STRASSENBAHN", "straße", "STRASSENBAHN"),
        ("Die Stra­ßenbahn", "strasse", "Stra­ßenbahn"),
        (unicodedata.normalize("NFD", "Ein CAFÉHAUS da"), "café", unicodedata.normalize("NFD", "CAFÉHAUS")),
        ("about ５０ km", "5", "５０"),
        ("the JavaScript	Doc", "java", "JavaScript"),
        ("key: shop-7f8e7d6c.", "7", "shop-7f8e7d6c."),
    ],
)
def test_the_hint_quotes_the_answer_as_it_is_written(response, expected, within, build_scorer):
    reason = build_scorer("string_match")(exchange(response, expected)).reason
    assert reason.startswith(f"'{expected}' occurs only within '{within}'; ")


@given(st.text(max_size=30), st.integers(0, 30), st.integers(0, 30))
def test_a_part_of_the_normalised_answer_is_found_as_it_was_written(response, start, end):
    """What is quoted reads the same when normalised; where there is no such part, the normalised one is quoted."""
    text = normalise(response)
    part = text[start:end]
    spelling = find_spelling(response, start, start + len(part))
    assert normalise(spelling) == part or spelling == part
    if response.isascii() and part.strip() == part:
        assert spelling in response


ALPHABETS = [
    "aZ", "éß'’", "Ωσς", "Жё", "աՖ", "ქ", "서울", "東京", "ทุ", "हिन्दी", "العَ", "שָׁ", "0٥5", "½²", "_-−.,", " \u00a0",
    "e$%", "\u0301\u200d\ud800",
]  # fmt: skip
SCRIPTS = st.sampled_from(ALPHABETS).flatmap(st.sampled_from)
TEXTS = st.text(SCRIPTS, max_size=12) | st.text(max_size=8)


@given(TEXTS, TEXTS, TEXTS)
def test_a_word_match_is_a_substring_match_and_a_text_matches_itself(before, expected, after):
    found = compute_word_match(before + expected + after, [expected])
    assert found <= compute_substring_match(before + expected + after, [expected])
    if normalise(expected):
        assert compute_word_match(expected, [expected]) == 1


@given(TEXTS, TEXTS, st.text(' \n()[]«»“”"*:;!?…。、', min_size=1), st.text(' \n()[]«»“”".,*:;!?…。、', min_size=1))
def test_white_space_and_punctuation_around_a_response_do_not_turn_a_match_into_a_miss(text, expected, before, after):
    if compute_word_match(text, [expected]):
        assert compute_word_match(before + text + after, [expected]) == 1


@given(
    st.text(SCRIPTS | st.sampled_from(" .,;:!?()an't5"), min_size=1, max_size=20), st.integers(0, 19), st.integers(1, 6)
)
def test_an_outline_agrees_that_a_text_between_separators_is_whole(text, start, length):
    plain = normalise(text)
    end = min(start + length, len(plain))
    if start < end and is_apart(plain, start) and is_apart(plain, end):
        assert Outline.of(plain).find_enclosing(start, end - start) is None


@given(st.text("0123456789", min_size=1, max_size=4), st.integers(0, 4), st.integers(1, 5))
def test_digits_inside_a_longer_number_are_no_match(number, start, length):
    part = number[start : start + length]
    for whole in (number, f"1,{number:0>3}", f"{number}.5", f"-{number}"):
        expected = part in whole and part == whole
        assert compute_word_match(f"about {whole} km", [part or "x"]) == expected


@pytest.mark.parametrize("name", NAMES)
def test_same_text_is_one_and_an_empty_response_zero(name, build_scorer):
    score = build_scorer(name)
    answer = "The capital of France is Paris, on the Seine."
    assert score(exchange(answer, answer)).value == 1.0
    assert score(exchange(answer, "Something else", answer)).value == 1.0
    assert (score(exchange(" \n", answer)).value, score(exchange("", answer)).reason) == (0.0, "the response is empty")


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("expected", [(), ("",), (" \t",), ("Paris", " "), ("\u00ad",), ("\u00ad \n",)])
def test_a_blank_expected_answer_is_an_error(name, expected, build_scorer):
    with pytest.raises(MetricError, match="expected answer"):
        build_scorer(name)(exchange("Paris", *expected))


@given(sentences, references)
def test_bleu_and_chrf_are_sacrebleu_s(response, expected):
    bleu = sacrebleu.sentence_bleu(response, expected, use_effective_order=True).score
    assert compute_bleu(response, expected) == pytest.approx(bleu / 100, abs=1e-12)
    assert compute_chrf(response, expected) == pytest.approx(sacrebleu.sentence_chrf(response, expected).score / 100)


@pytest.fixture(scope="module")
def rouge_package():
    """The reference implementation, which knows only a-z and 0-9."""
    from rouge_score.rouge_scorer import RougeScorer

    return RougeScorer(["rougeL"])


def test_rouge_is_that_of_the_rouge_package_on_ascii(rouge_package):
    @given(st.text(st.characters(codec="ascii"), max_size=40) | sentences.filter(str.isascii), references)
    def agrees(response, expected):
        expected = [text for text in expected if text.isascii()] or ["the cat"]
        theirs = rouge_package.score_multi(expected, response)["rougeL"].fmeasure
        assert compute_rouge(response, expected) == pytest.approx(theirs, abs=1e-12)

    agrees()


@given(text=st.text(st.sampled_from("ab \n\u2028é"), max_size=160))
@example(text="a  " * 60)
def test_reasons_show_the_beginning_of_an_answer(text):
    words = " ".join(text.split())
    assert exchange(text).answered == f"answered '{words if len(words) <= 70 else f'{words[:69]}…'}'"


def test_rouge_reads_words_of_any_script():
    assert compute_rouge("서울은 수도입니다", ["서울은 큰 도시이고 수도입니다"]) == pytest.approx(2 * 2 / (2 + 4))
    assert compute_rouge("हिन्दी भाषा", ["हिन्दी"]) == pytest.approx(2 / 3)


@given(sentences, references)
def test_values_stay_between_zero_and_one(response, expected):
    for compute in (compute_rouge, compute_bleu, compute_chrf):
        assert 0 <= compute(response, expected) <= 1
        assert compute(response, [*expected, response]) >= compute(response, expected) - 1e-12
