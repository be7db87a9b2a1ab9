"""Verdicts find their statements by text: in any order, in other clothes, and never on another number, name or not."""

from itertools import permutations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evalspec.scoring.judge.extraction import UnusableVerdict
from evalspec.scoring.judge.matching import assign, match_statements

STATEMENTS = (
    "Refunds are paid within 30 days.",
    "Refunds are paid within 31 days.",
    "Refunds are not paid within 30 days.",
    "The office is in Paris.",
    "The office is in London.",
    "The office isn't in London.",
    "Die Garantie gilt für einen Akku.",
    "Die Garantie gilt für keinen Akku.",
    "Le musée n'est pas ouvert.",
    "Le musée est ouvert.",
    "Компания не работает.",
    "Компания работает.",
    "苹果公司成立于1976年。",
    "苹果公司成立于1977年。",
    "このサービスは使えます。",
    "الشركة في دبي",
    "The area is 10² metres",
    "The area is 102 metres",
    "It takes 5 km.",
    "It takes 5 miles.",
)
FOREIGN = "Albert Einstein was born in Ulm."
ANY = st.lists(st.sampled_from(STATEMENTS), min_size=1, max_size=7)
NOISES = (
    str.upper,
    str.lower,
    lambda text: f"  {text.replace(' ', '  ')}\n",
    lambda text: text.rstrip(".。"),
    lambda text: f"{text.rstrip('.。')}!",
    lambda text: f"\u201c{text}\u201d",
    lambda text: f"3. {text}",
    lambda text: f"- {text}",
    lambda text: f"(2) **{text}**",
    lambda text: text.replace("'", "\u2019"),
    lambda text: text.replace("n't", " not"),
)


def verdict(text):
    """One that belongs to the statement itself."""
    return STATEMENTS.index(text) % 2


def match(asked, answered, labels=None):
    """The positions, with equal verdicts unless others are given."""
    return match_statements(asked, answered, [0] * len(answered) if labels is None else labels)


@given(ANY, st.data())
def test_any_order_in_other_clothes_puts_each_verdict_at_its_statement(asked, data):
    order = data.draw(st.permutations(asked))
    restyled = [data.draw(st.sampled_from(NOISES))(text) for text in order]
    for answered in (order, restyled):
        positions = match(asked, answered, [verdict(text) for text in order])
        assert sorted(positions) == list(range(len(asked)))
        assert [asked[position] for position in positions] == order


@given(ANY, st.data())
def test_a_foreign_a_repeated_or_an_exchanged_statement_is_refused(asked, data):
    at = data.draw(st.integers(0, len(asked) - 1))
    for other in (FOREIGN, *({*STATEMENTS} - {asked[at]})):
        answered = [*asked[:at], other, *asked[at + 1 :]]
        with pytest.raises(UnusableVerdict):
            match(asked, answered)


@given(ANY, st.data())
def test_a_part_of_the_statements_is_matched_but_no_more_than_all(asked, data):
    part = data.draw(st.lists(st.sampled_from(range(len(asked))), unique=True))
    positions = match(asked, [f"- {asked[position]}" for position in part])
    assert [asked[position] for position in positions] == [asked[position] for position in part]
    with pytest.raises(UnusableVerdict):
        match(asked, [*asked, asked[0].upper()])


@pytest.mark.parametrize(
    ("asked", "answered"),
    [
        ("He doesn't know; it can't work and won't.", "He does not know, it cannot work and will not"),
        ("The contract covers accidental damage.", "Contract covers the accidental damage"),
        ("Zürich is big.", "ZURICH is big"),
        ("The cafe is open in Malaga.", "The café is open in Málaga."),
        ("The cafe\u0301 at São Paulo.", "Cafe at Sao Paulo"),
        ("👍 good", "👍  Good."),
        ("It costs 1,000 € (±5 %).", "it costs 1000€ ±5%"),
        ("The fee is ４２ dollars.", "The fee is 42 dollars."),
        ("العدد هو ٤٢", "العدد هو 42"),
        ("Cafe\u0301 is open", "Caf\u00e9 is open"),
        ("1. The first claim", "The first claim"),
        ("Statement 3: it rains.", "It rains"),
        ("a well-known fact", "a well known fact"),
        ("It is .5 l.", "It is 0.5 l"),
        ("It costs **5** euros.", "It costs 5 euros"),
        ("*It costs 5* euros.", "It costs 5 euros"),
        ("共**5**个", "共5个"),
        ("**1. It costs 5**", "It costs 5"),
        ("* 5 items are left.", "5 items are left."),
        ("Prices* vary.", "Prices vary."),
        ("Wait ...5 minutes", "Wait 5 minutes"),
    ],
)
def test_one_statement_in_other_clothes(asked, answered):
    assert match([asked], [answered]) == [0]


@pytest.mark.parametrize(
    ("asked", "answered"),
    [
        ("There are two cats here.", "There are three cats here."),
        ("There were seventy men.", "There were seventh men."),
        ("It is -5 degrees outside.", "It is 5 degrees outside."),
        ("-5 degrees is cold.", "5 degrees is cold."),
        ("It took 1.5 hours.", "It took 15 hours."),
        ("It is 5 l", "It is .5 l"),
        ("It is -5 l", "It is -.5 l"),
        ("It is (.5) l", "It is (5) l"),
        ("It is $.5", "It is $5"),
        ("It is '.5' l", "It is '5' l"),
        ("It is '-5' degrees", "It is '5' degrees"),
        ("The rank is *5", "The rank is 5"),
        ("The rank is 5*", "The rank is 5"),
        ("The result is 5*3", "The result is 5 3"),
        ("The result is 5 * 3", "The result is 5 3"),
        ("The result is 5**3", "The result is 5*3"),
        ("The result is 5*.3", "The result is 5 .3"),
        ("The power is ^5", "The power is 5"),
        ("The result is x^2", "The result is x 2"),
        ("3. Oktober ist frei.", "4. Oktober ist frei."),
        ("It grew by 5%.", "It grew by 5."),
        ("He met Johnson there.", "He met Johnston there."),
        ("Vitamin A is healthy.", "Vitamin is healthy."),
        ("It is a typical case.", "It is an atypical case."),
        ("Sales increased much.", "Sales decreased much."),
        ("Siz geliyor musunuz?", "Siz gelmiyor musunuz?"),
        ("El hermano mayor llegó.", "El hermana mayor llegó."),
        ("A few users left.", "Few users left."),
        ("Vio a Juan.", "Vio Juan."),
        ("He met Mrs Harris there.", "He met Mrs Harriss there."),
        ("They gave a million away.", "They gave a millions away."),
        ("The drugs affect sleep.", "The drugs effect sleep."),
        ("هذه المدينة كبيرة", "هذه المديينة كبيرة"),
        ("苹果公司不大。", "苹果公司大。"),
        ("हिन्दी की किताब", "हिन्दी का किताब"),
        ("C++ is fast.", "C is fast."),
        ("Sodium nitrate is toxic.", "Sodium nitrite is toxic."),
        ("Add sulfate to water.", "Add sulfite to water."),
        ("Heat the butane slowly.", "Heat the butene slowly."),
        ("Eat the dessert now.", "Eat the desert now."),
        ("The link is causal.", "The link is casual."),
        ("There is a seperate fee.", "There is a separate fee."),
        ("It covers accidental damage.", "It covers accidental damages."),
        ("La pêche est belle.", "La péché est belle."),
        ("Мой дом.", "Мои дом."),
        ("かき", "がき"),
        ("कुल", "कूल"),
        ("The drug is safe for adults but not for children.", "The drug is safe for adults…"),
        ("All items ship free except lamps and chairs.", "All items ship free [...] chairs."),
        ("The limit is 50 per user and month", "The limit is 50 per user …"),
        ("Refunds are paid.", "…"),
        ("Refunds are paid.", ""),
    ],
)
def test_another_statement(asked, answered):
    for one, two in ((asked, answered), (answered, asked)):
        with pytest.raises(UnusableVerdict, match="was not sent"):
            match([one], [two])


def test_two_near_one_statement_are_no_match_for_two():
    with pytest.raises(UnusableVerdict, match="was not sent"):
        match(["The café is open.", FOREIGN], ["the café is open", "The cafe is open."])
    with pytest.raises(UnusableVerdict, match="was not sent"):
        match([FOREIGN, FOREIGN, "It rains."], [FOREIGN.upper(), "it rains", "IT RAINS"])


def test_the_nearest_assignment_wins():
    asked = ["El canto.", "Él cantó."]
    answered = ["él cantó", "el canto"]
    assert match(asked, answered, [0, 1]) == match(asked, answered, [1, 0]) == [1, 0]


@pytest.mark.parametrize(
    ("asked", "answered"),
    [
        (["US rules apply.", "us rules apply."], ["US RULES APPLY.", "Us rules apply."]),
        (["Le pêcheur.", "Le pécheur."], ["Le pecheur.", "LE PECHEUR"]),
    ],
)
def test_either_of_two_is_refused_unless_their_verdicts_are_equal(asked, answered):
    for labels in ([0, 1], [1, 0]):
        with pytest.raises(UnusableVerdict, match="could be either of two"):
            match(asked, answered, labels)
    for labels in ([0, 0], [1, 1]):
        assert sorted(match(asked, answered, labels)) == [0, 1]


def test_equal_statements_may_have_different_verdicts():
    """The judge contradicts itself there, but no text says which verdict is the wrong one."""
    for answered in (["It rains.", "It rains."], ["it rains", "- IT RAINS"]):
        assert sorted(match(["It rains."] * 2, answered, [0, 1])) == [0, 1]
    assert match(["It rains."] * 2, ["It rains."] * 2, [0, 1]) == [0, 1]
    assert match(["It rains."] * 2, ["It rains."] * 2, [1, 0]) == [1, 0]
    with pytest.raises(UnusableVerdict, match="could be either of two"):
        match(["US law.", "us law.", "US law."], ["us LAW", "Us law", "uS law"], [1, 0, 0])


@given(
    st.lists(st.tuples(st.sampled_from(["US law.", "us law.", "Us law."]), st.integers(0, 2)), min_size=1, max_size=5)
)
def test_three_verdicts_are_refused_where_texts_could_exchange_different_ones(pairs):
    asked, labels = zip(*pairs, strict=True)
    answered = ["uS LAW"] * len(asked)
    if len(set(asked)) > 1 and len(set(labels)) > 1:
        with pytest.raises(UnusableVerdict, match="could be either of two"):
            match(asked, answered, labels)
    else:
        assert sorted(match(asked, answered, labels)) == list(range(len(asked)))


@given(st.integers(1, 4), st.integers(0, 2), st.data())
def test_an_assignment_costs_the_least(rows, more, data):
    columns = rows + more
    row = st.lists(st.integers(-9, 9) | st.just(10**20), min_size=columns, max_size=columns)
    costs = data.draw(st.lists(row, min_size=rows, max_size=rows))

    def total(choice):
        return sum(costs[row][column] for row, column in enumerate(choice))

    chosen = assign(costs)
    assert len(set(chosen)) == rows
    assert total(chosen) == min(map(total, permutations(range(columns), rows)))


def test_hundreds_of_statements_in_other_clothes_take_little_time():
    asked = [f"Item {n} costs {n} euros in shop {n}." for n in range(150)]
    assert match(asked, [text.upper() for text in reversed(asked)]) == list(reversed(range(150)))
