"""Select the samples of a run: by tag, then a seeded random selection of the rest."""

import hashlib
import json
from collections.abc import Collection, Sequence
from hashlib import blake2b
from operator import attrgetter

from msgspec.json import Encoder
from msgspec.structs import asdict, force_setattr

from evalspec.datasets.spooling import spool
from evalspec.model import Sample

_DIGEST_BYTES = 8
_ENCODER = Encoder(order="deterministic")
_find_content = attrgetter(
    "user_input", "references", "retrieved_contexts", "reference_contexts", "qrels", "groups", "answerable", "metadata"
)


def select_samples(
    samples: Sequence[Sample],
    *,
    tags: Collection[str] = (),
    exclude_tags: Collection[str] = (),
    size: int | None = None,
    seed: int = 0,
) -> Sequence[Sample]:
    """Return at most `size` samples with at least one of `tags` (if given) and none of `exclude_tags`.

    The selection depends only on the seed and each sample's id. It is the same on every machine and nested: the 20 of a
    seed are among its 50. An additional sample displaces at most one other. Samples keep the order of the dataset.
    """
    wanted, unwanted = set(tags), set(exclude_tags)
    kept = samples
    if wanted or unwanted:
        kept = spool(s for s in samples if (not wanted or wanted & set(s.tags)) and not unwanted & set(s.tags))
    if size is None or size >= len(kept):
        return kept
    ids = sorted((sample.id for sample in kept), key=lambda name: (_rank(seed, name), name))
    chosen = set(ids[:size])
    return spool(sample for sample in kept if sample.id in chosen)


def add_digest(sample: Sample) -> Sample:
    """Return the sample with its digest: 16 hex digits of all that a score may depend on, without id, tags and line.

    The digest is set in place although samples are frozen: a copy would take longer than the digest.
    """
    content = _find_content(sample)
    try:
        encoded = _ENCODER.encode(content)
    except (UnicodeEncodeError, OverflowError):  # a lone surrogate, or a number of more than 64 bits
        encoded = json.dumps(content, sort_keys=True, default=asdict).encode()
    force_setattr(sample, "digest", blake2b(encoded, digest_size=_DIGEST_BYTES).hexdigest())
    return sample


def _rank(seed: int, sample_id: str) -> bytes:
    return hashlib.sha256(f"{seed}:{sample_id}".encode("utf-8", "surrogatepass")).digest()
