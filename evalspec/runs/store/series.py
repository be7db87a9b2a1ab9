"""Which values of stored runs one line may join: those of one measurement."""

from collections.abc import Sequence
from typing import Any

from msgspec import Struct

from evalspec.base.json_text import compute_digest
from evalspec.model.fingerprints import digest_parts

_LENGTH = 16


class RecordedDataset(Struct, frozen=True, rename="camel"):
    """What a fingerprint says of a dataset."""

    name: str
    selected: int
    samples_sha256: str | None = None
    metric_identities: dict[str, dict[str, Any]] = {}


class Recorded(Struct, frozen=True, rename="camel", kw_only=True):
    """What a fingerprint says about how values were measured."""

    datasets: Sequence[RecordedDataset]
    judge_refused: dict[str, str] = {}
    judge_models: dict[str, str] = {}

    def find_series(self, dataset: str, metric: str) -> str | None:
        """Return a digest that is equal in two runs if they measured the same: samples and formula.

        The formula includes the judge, if it has one, and the models that it stated. None: the run has no such dataset,
        or does not say what is in it.
        """
        for one in self.datasets:
            if one.name == dataset and one.samples_sha256:
                formula = digest_parts(one.metric_identities.get(metric, {}))
                refused = self.judge_refused if "judge" in formula else {}
                stated = sorted(self.judge_models) if "judge" in formula else ()
                return compute_digest([one.samples_sha256, metric, formula, refused, *stated])[:_LENGTH]
        return None
