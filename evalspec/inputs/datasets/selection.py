"""Select samples: by tags and conditions, then a seeded random draw from the rest."""

import hashlib
import json
from collections.abc import Callable, Collection, Iterable, Sequence
from hashlib import blake2b
from operator import attrgetter

from msgspec import Struct, to_builtins
from msgspec.json import Encoder
from msgspec.structs import force_setattr

from evalspec.base.errors import InvalidInput, Problem
from evalspec.base.foreign_text import normalize
from evalspec.inputs.datasets.apportionment import apportion_nested
from evalspec.inputs.datasets.filters import Condition, filter_samples, find_stratum, parse_condition, require_keys
from evalspec.inputs.datasets.spooling import spool
from evalspec.model import Sample

_DIGEST_BYTES = 8
_ENCODER = Encoder(order="deterministic")
_find_content = attrgetter(
    "user_input", "references", "retrieved_contexts", "reference_contexts", "qrels", "groups", "answerable", "metadata"
)
_find_actions = attrgetter("expected_tools", "forbidden_tools", "max_steps", "turns", "expected_state", "checks")


class Selection(Struct, frozen=True):
    """Which samples to use: those with one of `tags`, none of `exclude_tags`, and that meet all of `where`.

    `size`: at most so many of them, drawn by `seed`. `stratify`: keys whose values keep their shares in the draw.
    """

    tags: Collection[str] = ()
    exclude_tags: Collection[str] = ()
    where: Sequence[Condition] = ()
    size: int | None = None
    seed: int = 0
    stratify: Sequence[str] = ()

    def check_keys(self, samples: Callable[[], Iterable[Sample]]) -> None:
        """Check that at least one of the samples has each key of `where` and `stratify`.

        Raises:
            InvalidInput: No sample has a key.
        """
        if self.where:
            require_keys([one.key for one in self.where], samples(), "--where")
        if self.stratify:
            require_keys(self.stratify, samples(), "--stratify")


def parse_selection(
    *,
    tags: Collection[str] = (),
    exclude_tags: Collection[str] = (),
    where: Iterable[str] = (),
    size: int | None = None,
    seed: int = 0,
    stratify: Iterable[str] = (),
) -> Selection:
    """Return a selection from the texts of options. `stratify`: keys, also several in a text, separated by commas.

    Raises:
        InvalidInput: A condition cannot be read, or there are strata without a size.
    """
    keys = tuple(dict.fromkeys(key.strip() for text in stratify for key in text.split(",") if key.strip()))
    if keys and size is None:
        raise InvalidInput(Problem("strata need a size", "add --sample-size N", field="--stratify"))
    return Selection(tags, exclude_tags, tuple(map(parse_condition, where)), size, seed, keys)


def select(samples: Sequence[Sample], selection: Selection) -> Sequence[Sample]:
    """Return the selected samples in the order of the dataset.

    The draw depends only on the seed and each sample's id and stratum, so it is the same on every machine. It is
    nested: the 20 of a seed are among its 50. Without strata, an additional sample displaces at most one other. With
    strata, the number of samples of each is less than 1 from its share of the size.
    """
    kept = samples
    wanted, unwanted = _read_tags(selection.tags), _read_tags(selection.exclude_tags)
    if wanted or unwanted:
        tagged = ((sample, _read_tags(sample.tags)) for sample in kept)
        kept = spool(sample for sample, tags in tagged if (not wanted or wanted & tags) and not unwanted & tags)
    if selection.where:
        kept = spool(filter_samples(kept, selection.where))
    if selection.size is None or selection.size >= len(kept):
        return kept
    strata: dict[tuple[str, ...], list[str]] = {}
    for sample in kept:
        strata.setdefault(find_stratum(sample, selection.stratify), []).append(sample.id)
    places = apportion_nested({stratum: len(ids) for stratum, ids in strata.items()}, selection.size)
    chosen = {name for stratum, ids in strata.items() for name in rank_ids(ids, selection.seed)[: places[stratum]]}
    return spool(sample for sample in kept if sample.id in chosen)


def _read_tags(tags: Iterable[str]) -> set[str]:
    return {normalize("NFC", tag) for tag in tags}


def rank_ids(ids: Iterable[str], seed: int) -> list[str]:
    """Return the ids in the order in which a draw takes them: by a hash of seed and id."""
    return sorted(ids, key=lambda name: (_rank(seed, name), name))


def rank_replies(replies: Iterable[tuple[str, int]], seed: int) -> list[tuple[str, int]]:
    """Return replies, each as sample and attempt, in the order in which a draw takes them."""
    names = {f"{sample}\0{attempt}": (sample, attempt) for sample, attempt in replies}
    return [names[name] for name in rank_ids(names, seed)]


def add_digest(sample: Sample) -> Sample:
    """Return the sample with its digest: 16 hex digits of all that a score may depend on, without id, tags and line.

    A text has the same digest in each normalisation form of Unicode, which editors and file systems choose. The digest
    is set in place although samples are frozen: a copy would take longer than the digest.
    """
    content, actions = _find_content(sample), _find_actions(sample)
    if any(one not in (None, ()) for one in actions):
        content += actions
    content += () if sample.user is None else (sample.user,)
    try:
        encoded = _ENCODER.encode(content)
    except (UnicodeEncodeError, OverflowError):  # a lone surrogate, or a number of more than 64 bits
        encoded = json.dumps(content, sort_keys=True, default=to_builtins).encode()
    if not encoded.isascii():
        encoded = normalize("NFC", encoded.decode()).encode()
    force_setattr(sample, "digest", blake2b(encoded, digest_size=_DIGEST_BYTES).hexdigest())
    return sample


def _rank(seed: int, sample_id: str) -> bytes:
    return hashlib.sha256(f"{seed}:{sample_id}".encode("utf-8", "surrogatepass")).digest()
