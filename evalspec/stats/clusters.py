"""Samples that belong together: questions on one document, turns of one conversation, copies of one template.

Such samples rise and fall together, so that ten of them tell less than ten independent ones. Every function of this
package that is given `clusters` takes the cluster, not the sample, as what is independent.
"""

from collections.abc import Hashable, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy
    from numpy.typing import NDArray


def number_clusters(labels: Sequence[Hashable], count: int) -> list[int]:
    """The number of each value's cluster, from 0, in the order in which the labels first occur.

    Raises:
        ValueError: there are not as many labels as values, or a label is None.
    """
    if len(labels) != count:
        raise ValueError(f"{count} values but {len(labels)} cluster labels")
    numbers: dict[Hashable, int] = {}
    members = [numbers.setdefault(label, len(numbers)) for label in labels]
    if None in numbers:
        place = members.index(numbers[None])
        raise ValueError(f"value {place} has no cluster label; give a sample without one a label of its own")
    return members


def sum_clusters(
    values: "NDArray[numpy.float64]", members: Sequence[int] | None
) -> tuple["NDArray[numpy.float64]", "NDArray[numpy.float64]"]:
    """Sum and size of each cluster by the numbers of the values' clusters; without numbers each value is one."""
    import numpy as np

    if members is None:
        return values, np.ones(len(values))
    return np.bincount(members, weights=values).astype(np.float64), np.bincount(members).astype(np.float64)
