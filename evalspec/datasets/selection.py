"""Which samples of a dataset a run asks: by tag, then a seeded sample of what is left."""

import hashlib
from collections.abc import Collection, Sequence

from evalspec.records import Sample


def select_samples(
    samples: Sequence[Sample],
    *,
    tags: Collection[str] = (),
    exclude_tags: Collection[str] = (),
    size: int | None = None,
    seed: int = 0,
) -> list[Sample]:
    """Samples with at least one of `tags` (all, where none are given) and none of `exclude_tags`, at most `size`.

    The choice depends only on the seed and each sample's id: it is the same on every machine, it is nested (the 20 of
    a seed are among its 50), and adding a sample to the dataset moves at most one other out. Order is the dataset's.
    """
    wanted, unwanted = set(tags), set(exclude_tags)
    kept = [s for s in samples if (not wanted or wanted & set(s.tags)) and not unwanted & set(s.tags)]
    if size is None or size >= len(kept):
        return kept
    chosen = {sample.id for sample in sorted(kept, key=lambda s: (_rank(seed, s.id), s.id))[:size]}
    return [sample for sample in kept if sample.id in chosen]


def _rank(seed: int, sample_id: str) -> bytes:
    return hashlib.sha256(f"{seed}:{sample_id}".encode("utf-8", "surrogatepass")).digest()
