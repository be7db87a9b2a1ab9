"""Clusters of samples: questions on one document, turns of one conversation, copies of one template.

Scores in a cluster are correlated, so ten samples carry less information than ten independent ones. Every function of
this package with `clusters` treats clusters, not samples, as independent.
"""

from collections.abc import Hashable, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy
    from numpy.typing import NDArray

    from evalspec.model import Sample, SampleResult


def find_cluster(sample: "Sample | SampleResult", key: str | None) -> Hashable:
    """Return the cluster of a sample: its copies, or its declared one. A sample without either is one of its own."""
    if sample.unit is not None:
        return "copies of", sample.unit
    return (key, str(sample.metadata[key])) if key is not None and key in sample.metadata else sample.id


def number_clusters(labels: Sequence[Hashable], count: int) -> list[int]:
    """Return the number of each value's cluster, from 0, in the order of first occurrence of the labels.

    Raises:
        ValueError: the numbers of labels and values differ, or a label is None.
    """
    if len(labels) != count:
        raise ValueError(f"{count} values but {len(labels)} cluster labels")
    numbers: dict[Hashable, int] = {}
    members = [numbers.setdefault(label, len(numbers)) for label in labels]
    if None in numbers:
        place = members.index(numbers[None])
        raise ValueError(f"value {place} has no cluster label; give a sample without one a unique label")
    return members


def sum_clusters(
    values: "NDArray[numpy.float64]", members: Sequence[int] | None
) -> tuple["NDArray[numpy.float64]", "NDArray[numpy.float64]"]:
    """Return the sum and size of each cluster. `members`: each value's cluster; None: each value is a cluster."""
    import numpy as np

    if members is None:
        return values, np.ones(len(values))
    return np.bincount(members, weights=values).astype(np.float64), np.bincount(members).astype(np.float64)
