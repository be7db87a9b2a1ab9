"""The words in which two texts differ."""

from hypothesis import given
from hypothesis import strategies as st

from evalspec.reports.word_changes import mark_differences


def marked(one, other):
    return [[piece.text for piece in side if piece.differs] for side in mark_differences(one, other)]


def test_words_that_only_one_text_has_are_marked():
    assert marked("Paid within 30 days.", "paid within 14 days") == [["30", "."], ["14"]]
    assert marked("Write to the help desk now", "Ask a friend now") == [["Write to the help desk"], ["Ask a friend"]]
    assert marked("same  words", "same words") == [[], []]
    assert marked("2,000 ms", "2,500 ms") == [["000"], ["500"]]


def test_nothing_is_marked_where_nothing_is_common_or_a_text_is_empty():
    assert marked("Paris.", "Rome.") == [[], []]
    assert marked("", "Rome") == [[], []]
    assert marked("a " * 5000, "a " * 5000 + "b") == [[], []]


@given(st.text(), st.text())
def test_the_pieces_are_the_text(one, other):
    sides = mark_differences(one, other)
    assert ["".join(piece.text for piece in side) for side in sides] == [one, other]
