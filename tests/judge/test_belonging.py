"""What the judge takes out of a text belongs to it: fair paraphrases pass, ragas' own examples do not."""

import json
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from evalspec.scoring.judge.belonging import compute_coverage, content_words, find_unsupported, strip_courtesies
from evalspec.scoring.judge.extraction import UnusableVerdict
from evalspec.scoring.judge.services import import_ragas
from evalspec.scoring.judge.verdicts import settle_answer

LINES = (Path(__file__).parent / "paraphrases.jsonl").read_text(encoding="utf-8").splitlines()
PARAPHRASES = [json.loads(line) for line in LINES]


def as_answer(kind, statements):
    """Statements as the judge's answer of a kind."""
    return {
        "StatementGeneratorOutput": {"statements": statements},
        "ClaimDecompositionOutput": {"claims": statements},
        "ContextRecallOutput": {
            "classifications": [{"statement": text, "reason": "r", "attributed": 1} for text in statements]
        },
    }[kind]


KINDS = ("StatementGeneratorOutput", "ClaimDecompositionOutput", "ContextRecallOutput")


def parroted():
    """The kind and answer of every example in ragas' prompts that take statements out of a text."""
    import_ragas()
    from ragas.metrics.collections import answer_correctness, context_recall, factual_correctness, faithfulness
    from ragas.metrics.collections.noise_sensitivity import util as noise_sensitivity

    prompts = (
        faithfulness.util.StatementGeneratorPrompt(),
        answer_correctness.util.StatementGeneratorPrompt(),
        noise_sensitivity.StatementGeneratorPrompt(),
        factual_correctness.util.ClaimDecompositionPrompt(),
        context_recall.util.ContextRecallPrompt(),
    )
    for prompt in prompts:
        texts = {name: "x" for name, field in prompt.input_model.model_fields.items() if field.is_required()}
        written = prompt.to_string(prompt.input_model(**texts))
        for shown in written.split("\nOutput: {")[1:]:
            answer, _ = json.JSONDecoder().raw_decode("{" + shown)
            yield prompt.output_model.__name__, answer


def test_fifty_answers_are_covered():
    assert len(PARAPHRASES) == 50
    languages = {row["language"] for row in PARAPHRASES}
    assert languages >= {"en", "de", "fr", "es", "ru", "zh", "ja", "ko", "ar"}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("row", PARAPHRASES, ids=lambda row: f"{row['language']}-{row['answer'][:20]}")
def test_no_fair_paraphrase_is_refused(kind, row):
    answer = as_answer(kind, row["statements"])
    assert settle_answer(kind, row | {"response": row["answer"]}, answer) == answer


DECOMPOSING = {"StatementGeneratorOutput": "statements", "ClaimDecompositionOutput": "claims"}
DECOMPOSITIONS = [
    json.loads(line)
    for line in (Path(__file__).parent / "decompositions.jsonl").read_text(encoding="utf-8").splitlines()
]
"""Answers with greetings, thanks and offers to help, and a statement for each sentence that states something."""


@pytest.mark.parametrize("kind", DECOMPOSING)
@pytest.mark.parametrize("row", DECOMPOSITIONS, ids=lambda row: f"{row['language']}-{row['question'][:20]}")
def test_a_decomposition_may_leave_out_courtesies_but_not_three_of_four_sentences(kind, row):
    sent = row | {"response": row["answer"]}
    assert settle_answer(kind, sent, as_answer(kind, row["statements"])) == as_answer(kind, row["statements"])
    stated = " ".join(sentence for sentence in strip_courtesies(row["answer"]).splitlines())
    kept = [part for part in row["statements"] if compute_coverage([part], stated) < 0.5]
    assert len(kept) >= len(row["statements"]) - 1 or len(row["statements"]) < 4
    for part in kept:
        with pytest.raises(UnusableVerdict, match=r"of the text's words, but need at least 50 %; break down every"):
            settle_answer(kind, sent, as_answer(kind, [part]))


@pytest.mark.parametrize("kind", DECOMPOSING)
@pytest.mark.parametrize("label", ["states nothing: ", "- **States nothing**: ", "no claim: "])
def test_no_label_takes_false_sentences_out_of_the_score(kind, label):
    row = next(row for row in DECOMPOSITIONS if len(row["statements"]) >= 4)
    sent, [true, *false] = row | {"response": row["answer"]}, row["statements"]
    labelled = as_answer(kind, [true, *(label + one for one in false)])
    assert settle_answer(kind, sent, labelled) == labelled, "each is a statement, and gets a verdict"


def test_no_example_of_ragas_passes_for_an_answer():
    examples = list(parroted())
    assert len(examples) == 8
    for kind, answer in examples:
        for row in PARAPHRASES:
            if kind == "StatementGeneratorOutput" or content_words(row["answer"]):
                with pytest.raises(UnusableVerdict):
                    settle_answer(kind, row | {"response": row["answer"]}, answer)


def test_only_the_whole_of_the_statements_covers_a_text():
    """Half of the reference's words leaves room for synonyms; the first of several statements is not enough."""
    longer = [row for row in PARAPHRASES if len(row["statements"]) > 2]
    assert all(compute_coverage(row["statements"][:1], row["answer"]) < 0.5 for row in longer)
    assert len(longer) >= 3


@pytest.mark.parametrize(
    ("statement", "source"),
    [
        ("Häuser", "das Haus"),
        ("It was absorbed.", "absorption"),
        ("cities", "a city"),
        ("Die Stadt", "Hauptstadt"),
        ("в Москве", "Москва"),
        ("العاصمة", "عاصمة"),
        ("서울은", "서울에서"),
        ("forty-two", "42"),
        ("42", "Zweiundvierzig"),
        ("1976", "nineteen seventy-six"),
        ("30 000", "thirty thousand"),
        ("٤٢", "42"),
        ("四十二", "42"),
        ("January 5", "05.01.2024"),
        ("05.01.2024", "January 5"),
        ("am 5. Januar", "bis 05.01."),
        ("half past twelve", "12:30"),
        ("12.30 Uhr", "12:30"),
        ("at 7 o'clock", "07:00"),
        ("agent 7", "agent 007"),
        ("0.5", ".50"),
        ("1,5 Liter", "1.5"),
        ("1 000 €", "1000"),
        ("1.000 €", "1,000"),
        ("5", "It is 5 200"),
        ("1\u202f000,5", "1.000,50"),
        ("½", "0.5"),
        ("half of them", "50 %"),
        ("one half", "½"),
        ("two times", "twice"),
        ("dwanaście", "zwölf"),
        ("the nineteenth", "19th"),
        ("the twenty-first", "21st"),
        ("im neunzehnten", "19"),
        ("einundzwanzigster", "21."),
        ("le dix-neuvième", "19e"),
        ("soixante-dix", "70"),
        ("soixante et onze", "71"),
        ("quatre-vingts", "80"),
        ("quatre-vingt-douze", "92"),
        ("la decimonovena", "19"),
        ("nel diciannovesimo", "19"),
        ("na décima", "10"),
        ("девятнадцатого", "19"),
        ("الخامس", "5"),
        ("yirmi", "21"),
        ("dwadzieścia", "20"),
        ("コンピュータ", "コンピューターです"),
        ("ZÜRICH", "Zurich"),
        ("Yes.", "Paris"),
        ("It is so.", "Paris"),
        ("Bananas are yellow.", "Yes, it is."),
        ("Bananas are yellow.", ""),
        ("", "Paris"),
    ],
)
def test_words_in_common(statement, source):
    assert find_unsupported([statement], source) is None


@pytest.mark.parametrize(
    ("statement", "source"),
    [
        ("Mount Everest.", "Everyone counts."),
        ("England", "The engine is engaged."),
        ("He was one of the greatest.", "He is the first of the few."),
        ("It is 57", "forty-two"),
        ("In 1895", "four"),
        ("It is 5", "1.5"),
        ("In 2024", "05.01.2023"),
        ("the nineteenth", "18"),
        ("Bananas are yellow.", "42"),
        ("苹果很好", "天空是蓝色的"),
        ("はい、犬です", "空は青いです"),
    ],
)
def test_nothing_in_common(statement, source):
    assert find_unsupported([statement], source) == statement


@pytest.mark.parametrize(
    ("reference", "statement"),
    [
        ("2024-01-05", "The release was on January 5, 2024."),
        ("05.01.2024", "Das Datum ist der 5. Januar 2024."),
        ("1/5/24", "It is January 5th, 2024."),
        ("January 5, 2024", "The date is 2024-01-05."),
        ("5. Januar 2024", "Es war am 05.01.24."),
        ("2024年1月5日", "The date is 2024-01-05."),
        ("2024-01-05T07:30:00Z", "It happened on January 5, 2024, at 7:30."),
        ("Closes at 20:00.", "It closes at 8 pm."),
        ("Python 3.11.12", "Python 3.11 is used."),
        ("5 200 €", "Cela coûte 5200 €."),
        ("19th century", "It was built in the nineteenth century."),
        ("twenty-one days", "It takes 21 days."),
        ("21 days", "It takes twenty-one days."),
        ("ca. 5 km", "The distance is about five kilometres."),
        ("quatre-vingts euros", "Cela coûte 80 euros."),
        ("yirmi bir gün", "Deneme süresi 21 gün."),
        ("dwadzieścia jeden dni", "Okres próbny trwa 21 dni."),
    ],
)
def test_a_date_or_number_in_another_form_covers_its_reference(reference, statement):
    for one, two in ((reference, statement), (statement, reference)):
        assert find_unsupported([one], two) is None
    assert compute_coverage([statement], reference) >= 0.5


@given(st.text(), st.lists(st.text(), max_size=3))
@example("À*P", ["0*"])
@example("가*P", ["0*"])
def test_any_text_has_its_own_words(text, others):
    assert find_unsupported([text], " ".join([text, *others])) is None
    assert compute_coverage([text, *others], text) == 1.0


def test_long_texts_take_little_time():
    text = " ".join(f"word{n} {n} begriff{n}teil" for n in range(3000)) + "x" * 100_000
    assert compute_coverage([text], text) == 1.0
