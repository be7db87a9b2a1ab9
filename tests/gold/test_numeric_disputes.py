"""Numbers, units and modes of an answer against the text of its block, and who may uphold an answer that differs."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evalspec import gold
from evalspec.base.errors import InvalidInput
from evalspec.curation.gold.disputes import find_differences
from evalspec.curation.gold.quantities import list_quantities

UNITS = {"minutes": "days", "GB": "MB", "%": "dollars", "users": "seats", "business days": "days", "°C": "percent"}


def differences(answer, *alternatives):
    return [one.render() for one in find_differences(answer, [list(alternatives)])]


@pytest.mark.parametrize(
    ("answer", "block", "said"),
    [
        ("Within 30 minutes.", "Replies come within 30 days.", "30 minutes; the block says 30 days"),
        ("AES-256 encryption", "Data is encrypted with AES-256-GCM.", "AES-256; the block says AES-256-GCM"),
        ("AES-256-GCM", "Data is encrypted with AES-256.", "AES-256-GCM; the block says AES-256"),
        ("AES 256", "It is AES-256-GCM.", "AES 256; the block says AES-256-GCM"),
        ("TLS 1.2", "TLS 1.3 or later", "TLS 1.2; the block says TLS 1.3"),
        ("14 days", "14 business days", "14 days; the block says 14 business days"),
        ("14 business days", "14 days", "14 business days; the block says 14 days"),
        ("5 seats", "5 users", "5 seats; the block says 5 users"),
        ("100 requests per second", "100 requests per minute", "requests per second; the block says 100 requests per"),
        ("$20", "20 euros", "$20; the block says 20 euros"),
        ("99.9 %", "99.99 %", "99.9 %; the block says 99.99 %"),
        ("key rotation every 90 days", "Data is encrypted.", "90 days; the block does not say it"),
        ("since 2025-06-04", "since 2025-06-05", "2025-06-04; the block does not say it"),
        ("-5 °C", "5 °C", "-5; the block"),
        ("10 GB", "10 Gb", "10 GB; the block says 10 Gb"),
        ("5k requests", "5 requests", "5k requests; the block says 5 requests"),
        ("½ hour", "2 hours", "½ hour; the block says 2 hours"),
        ("a dozen keys", "13 keys", "dozen keys; the block says 13 keys"),
        ("twice a day", "once a day", "twice; the block"),
        ("once a day", "twice a day", "once; the block"),
    ],
)
def test_a_difference_is_shown_with_what_the_block_says(answer, block, said):
    (found,) = differences(answer, block)
    assert found.startswith("the answer says ")
    assert said in found


@pytest.mark.parametrize(
    ("answer", "block"),
    [
        ("AES-256-GCM, per tenant", "AES-256-GCM"),
        ("AES-256 in GCM mode", "AES-256-GCM"),
        ("AES-256-GCM", "AES-256 in GCM mode"),
        ("SHA256", "SHA-256"),
        ("fourteen days", "14 days"),
        ("30-day refund", "30 days"),
        ("30 min", "thirty minutes"),
        ("1,000 requests", "1000 requests"),
        ("2 million users", "2,000,000 users"),
        ("20 dollars", "$20"),
        ("10 days", "10 to 20 days"),
        ("5 users", "up to 5 active users"),
        ("14", "14 days"),
        ("in 2024 customers moved", "2024: the move"),
        ("one of the plans", "the plans"),
        ("5k requests", "5,000 requests"),
        ("10 gb", "10 GB"),
        ("half an hour", "½ hour"),
        ("once you log in", "when you log in"),
        ("encryption at rest", "no number at all"),
    ],
)
def test_other_spellings_of_the_same_number_are_no_difference(answer, block):
    assert differences(answer, block) == []


def test_every_alternative_has_to_say_it_but_only_one_of_the_required_blocks():
    assert find_differences("14 days", [["14 days"], ["nothing"]]) == []
    assert differences("14 days", "14 days", "nothing") == ["the answer says 14 days; the block does not say it"]


@given(st.text())
def test_any_text_agrees_with_itself(text):
    """What a text says it says, whatever is in it; the parser never fails."""
    assert find_differences(text, [[text]]) == []
    assert all(one.text in text for one in list_quantities(text))


@given(
    st.integers(2, 10**6),
    st.sampled_from(sorted(UNITS)),
    st.sampled_from(["Within {}.", "It takes {} at most", "({})", "First: {}; then more"]),
    st.sampled_from(["We need {}.", "{}", "All of it, {} - no more"]),
)
def test_another_unit_or_another_number_is_a_difference(number, unit, answer, block):
    if 1900 <= number <= 2100:
        number += 1000  # years have no units
    said = answer.format(f"{number} {unit}")
    assert find_differences(said, [[block.format(f"{number} {unit}")]]) == []
    if unit != "°C":  # read as a bare number
        assert find_differences(said, [[block.format(f"{number} {UNITS[unit]}")]])
    assert find_differences(said, [[block.format(f"{number + 1} {unit}")]])


@pytest.fixture
def disputed(gold_set):
    """A triple that says 14 days of a block that says 14 business days; cleo flags it as numeric."""
    corpus = gold_set.corpus(refunds="Refunds take 14 business days.")
    done = gold_set.call(
        *("add", "refund", "--question", "How long?", "--block", "refunds", "--answer", "14 days"),
        *("--corpus", str(corpus), "--as", "ada"),
    )
    assert done.code == 0, done.err
    gold.review(gold_set.root, "refund", "ben")
    return gold_set


LINE = "the answer says 14 days; the block says 14 business days"


def test_a_numeric_flag_shows_the_difference(disputed):
    done = disputed.call("review", "refund", "overstated", "--category", "numeric", "--as", "cleo", "--json")
    assert (done.code, done.document["differences"]) == (0, [LINE])
    assert LINE in done.err


def test_author_and_flagger_cannot_uphold_a_number_that_differs(disputed):
    gold.review(disputed.root, "refund", "cleo", "overstated", category="numeric")
    before = disputed.files()
    for person in ("ada", "cleo"):
        done = disputed.call("resolve", "refund", "upheld", "--as", person)
        assert (done.code, LINE in done.err) == (2, True)
    done = disputed.call("resolve", "refund", "upheld", "--category", "synonym", "--as", "ada")
    assert done.code == 2, "another category does not lift the rule of the flag"
    assert disputed.files() == before
    assert disputed.call("resolve", "refund", "dropped", "--as", "ada").code == 0, "dropping is always possible"


def test_a_third_person_needs_a_note(disputed):
    gold.review(disputed.root, "refund", "cleo", "overstated", category="numeric")
    done = disputed.call("resolve", "refund", "upheld", "--as", "dan")
    assert (done.code, LINE in done.err, "--note" in done.err) == (2, True, True)
    done = disputed.call("resolve", "refund", "upheld", "--as", "dan", "--note", "The header says business.")
    assert (done.code, LINE in done.err, disputed.state("refund")) == (0, True, "accepted")


def test_the_revised_answer_is_upheld_and_the_category_of_whoever_settles_it_counts(disputed):
    gold.review(disputed.root, "refund", "cleo", "overstated")
    with pytest.raises(InvalidInput, match="14 business days"):
        gold.resolve(disputed.root, "refund", "ada", "upheld", category="numeric")
    for person in ("ada", "cleo"):
        gold.resolve(disputed.root, "refund", person, "upheld", category="synonym")
    assert disputed.state("refund") == "accepted"


def test_without_the_text_a_number_is_unknown_and_a_corpus_makes_it_known(gold_set):
    gold_set.add("refund", "14 days")
    gold_set.accept("refund", "ben")
    gold.review(gold_set.root, "refund", "cleo", "overstated", category="numeric")
    done = gold_set.call("resolve", "refund", "upheld", "--as", "ada")
    assert (done.code, "the text of refunds is not known" in done.err, "--corpus FILE" in done.err) == (2, True, True)
    corpus = gold_set.corpus(refunds="Refunds take 14 days.")
    assert gold_set.call("resolve", "refund", "upheld", "--as", "ada", "--corpus", str(corpus)).code == 0


def test_lint_finds_what_was_upheld_by_hand(disputed):
    gold.review(disputed.root, "refund", "cleo", "overstated")
    for person in ("ada", "cleo"):
        gold.resolve(disputed.root, "refund", person, "upheld")
    assert disputed.call("lint").code == 0
    for path in (disputed.root / "events" / "refund").glob("*-resolve-*"):
        path.write_text(path.read_text() + "category: numeric\n")
    done = disputed.call("lint")
    assert (done.code, f"upheld in a numeric dispute, but {LINE}" in done.err) == (2, True)
