"""When two runs measured the same, so that one line may join their values."""

import pytest

from evalspec.model.fingerprints import DatasetDigest, Fingerprint
from evalspec.runs.store.run_rows import find_series

IDENTITY = {"version": "1", "judge": "m #a", "prompt": "#b"}


def series_of(metric="faithfulness", refused=None, stated=None, samples="s", **identity):
    own = {"faithfulness": IDENTITY | identity, "rouge": {"version": "1"}}
    dataset = DatasetDigest("qa", samples_sha256=samples, metric_identities=own)
    recorded = Fingerprint(datasets=(dataset,), judge_refused=refused or {}, judge_models=stated or {})
    return find_series(recorded, "qa", metric)


@pytest.mark.parametrize(
    "changed",
    [
        {"samples": "other"},
        {"judge": "m #other"},
        {"prompt": "#other"},
        {"version": "2"},
        {"refused": {"temperature": "left out"}},
        {"stated": {"a": "m-2026-11-20"}},
        {"metric": "rouge"},
    ],
    ids=str,
)
def test_whatever_changes_the_measurement_begins_another_series(changed):
    assert series_of(**changed) != series_of()


def test_a_redacted_label_and_a_judge_that_a_metric_does_without_change_nothing():
    assert series_of(judge="[redacted] #a") == series_of() is not None
    others = {"refused": {"temperature": "left out"}, "judge": "m #other", "stated": {"a": "m"}}
    assert series_of("rouge", **others) == series_of("rouge")


def test_a_run_without_the_dataset_has_no_series():
    assert find_series(Fingerprint(), "qa", "rouge") is None
