"""Vectors of texts: whether they can be compared, and how alike they are."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from evalspec.errors import MetricError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Vectors = NDArray[np.float64]


def compute_cosine(one: "NDArray[np.float64]", other: "NDArray[np.float64]") -> float:
    """The cosine of the angle between two vectors, -1 to 1. Neither may be zero."""
    import numpy as np

    return float(one @ other / (np.linalg.norm(one) * np.linalg.norm(other)))


def check_vectors(texts: Sequence[str], vectors: "Vectors") -> "Vectors":
    """The vectors, each finite and not zero.

    Raises:
        MetricError: naming the first text whose vector has no direction.
    """
    import numpy as np

    usable = np.isfinite(vectors).all(axis=1) & vectors.any(axis=1)
    if not usable.all():
        text = texts[int(np.argmin(usable))]
        raise MetricError(f"the embedding of {text[:60]!r} has no direction to compare")
    return vectors
