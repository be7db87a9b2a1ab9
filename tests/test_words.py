"""A word that crosses rooms is an enum. The library and REST take the same words as plain text."""

from inspect import get_annotations
from typing import Any, get_args

import pytest

from evalspec.api import public
from evalspec.api.arguments import Options
from evalspec.curation.gold.schema import DisputeOutcome, Flag, Kind
from evalspec.model.conventions import EmptyQrels, FlatIds
from evalspec.model.fingerprints import Cleanup, RetrieverMode
from evalspec.model.labels import OF_REPLIES, OF_SCORES


def words_of(kind: Any) -> set[str]:
    """The words that an annotation accepts."""
    return {word for part in get_args(kind) for word in (words_of(part) if get_args(part) else {part}) if word} - {
        type(None)
    }


@pytest.mark.parametrize(
    ("door", "name", "words"),
    [
        (Options, "mode", RetrieverMode),
        (Options, "cleanup", Cleanup),
        (public.score, "empty_qrels", EmptyQrels),
        (public.convert, "retrieval_gt_1d", FlatIds),
    ],
)
def test_the_library_takes_the_words_of_the_enum(door, name, words):
    assert words_of(get_annotations(door)[name]) == set(words)


def test_rest_takes_the_words_of_the_enum():
    pytest.importorskip("fastapi")
    from evalspec.service.evaluations_api import MeasureConfig
    from evalspec.service.gold_api import ResolutionRequest, ReviewRequest
    from evalspec.service.labels_api import LabelRequest
    from evalspec.service.runs_api import RunRequest

    doors: dict[tuple[Any, str], set[str]] = {
        (RunRequest, "mode"): set(RetrieverMode),
        (MeasureConfig, "mode"): set(RetrieverMode),
        (LabelRequest, "verdict"): {*OF_REPLIES, *OF_SCORES},
        (ReviewRequest, "verdict"): {Kind.CONFIRM, *Flag},
        (ResolutionRequest, "outcome"): {DisputeOutcome.UPHELD, DisputeOutcome.DROPPED},
    }
    for (body, name), words in doors.items():
        assert words_of(body.model_fields[name].annotation) == words, (body, name)
