"""What is odd about the hits of a search and is no error: counted, so that a report can say it."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from itertools import pairwise

from evalspec.retrievers.base import Hit


@dataclass(frozen=True, slots=True)
class HitOddities:
    """Counts of one search, or of several added up.

    `duplicates`: hits whose id an earlier hit has (the first counts). `out_of_order`: hits with a higher score than
    the one before (the order stays the retriever's). `unknown`: hits of documents that are not in the corpus.
    """

    duplicates: int = 0
    out_of_order: int = 0
    unknown: int = 0

    def __add__(self, other: "HitOddities") -> "HitOddities":
        return HitOddities(
            self.duplicates + other.duplicates,
            self.out_of_order + other.out_of_order,
            self.unknown + other.unknown,
        )


def count_oddities(hits: Sequence[Hit], corpus: Collection[str] | None = None) -> HitOddities:
    """The oddities of one search. `corpus`: the ids of all documents; None where they are not known."""
    scores = [hit.score for hit in hits if hit.score is not None]
    return HitOddities(
        duplicates=len(hits) - len({hit.id for hit in hits}),
        out_of_order=sum(later > earlier for earlier, later in pairwise(scores)),
        unknown=0 if corpus is None else sum(hit.document not in corpus for hit in hits),
    )
