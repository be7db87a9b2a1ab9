"""Agreement of people with each other, against the packages that define it, and with the scores of a run."""

import random
import warnings

import krippendorff
import numpy as np
import pytest
from scipy.stats import binomtest

from evalspec import labels
from evalspec.curation.labels.binding import Case
from evalspec.curation.labels.cases import LabelledRun
from evalspec.curation.labels.files import LabelFiles, write_labels
from evalspec.curation.labels.records import make_label
from evalspec.model.labels import LabelVerdict
from evalspec.runs.store.run_store import RunStore
from labels.conftest import STORE

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    from statsmodels.stats.inter_rater import cohens_kappa

COUNT = 60


@pytest.fixture
def rated(project, labelled):
    """A run of sixty samples, with labels of three people who often agree."""
    project.evaluation["datasets"] = []
    project.samples(COUNT, "many")
    labelled.replies = {f"s{n}": "Paris" if n % 3 else "Rome" for n in range(COUNT)}
    run, rng = labelled.run(), random.Random(5)
    opened = LabelledRun(RunStore(STORE), run)
    said = []
    for n in range(COUNT):
        truth = rng.random() < 0.7
        for who in ("ada", "ben", "cleo"):
            if who != "cleo" or n < 20:
                said.append((who, n, truth if rng.random() < 0.8 else not truth))
    made = [record(opened.find_case(None, f"s{n}", 1, None), who, "good" if good else "bad") for who, n, good in said]
    write_labels(STORE, run, made)
    return said


def record(case: Case, who: str, verdict: str, at: int = 0, **more):
    values = {"labeller": who, "verdict": LabelVerdict(verdict), "at": f"2026-01-01T00:00:00.{at:06}Z"}
    return make_label({**case.describe(), **values, **more})


def test_agreement_is_that_of_the_oracles(rated):
    (replies,) = labels.measure_labels().replies
    found = {(one.measure, one.raters): one for one in replies.agreement}
    table = np.full((3, COUNT), np.nan)
    for who, n, good in rated:
        table[["ada", "ben", "cleo"].index(who), n] = good
    alpha = found["Krippendorff's alpha", ()]
    assert alpha.value == pytest.approx(krippendorff.alpha(table, level_of_measurement="nominal"))
    assert alpha.interval[0] < alpha.value < alpha.interval[1]
    square = np.zeros((2, 2))
    for n in range(COUNT):
        square[int(table[0, n]), int(table[1, n])] += 1
    kappa = found["Cohen's kappa", ("ada", "ben")]
    assert (kappa.value, kappa.units) == (pytest.approx(cohens_kappa(square).kappa), COUNT)
    few = found["Cohen's kappa", ("ada", "cleo")]
    assert (few.value, few.unknown) == (None, "20 of the 30 in common that are needed")
    assert found["Gwet's AC1", ()].value is not None
    assert replies.good.value == pytest.approx(np.nanmean(np.nanmean(table, axis=0)))


def test_shares_and_confusion(labelled):
    for n, (verdict, value) in enumerate([("agree", None), ("disagree", 0.0), ("disagree", 0.5), ("disagree", 1.0)]):
        labels.label("latest", f"s{n}", verdict, by="ada", metric="string_match", value=value)
    found = labels.measure_labels()
    (metric,) = found.metrics
    ends = binomtest(1, 4).proportion_ci(0.95)
    assert (metric.agree.labelled, metric.agree.value, metric.agree.interval_method) == (4, 0.25, "exact")
    assert metric.agree.interval == (pytest.approx(ends.low, abs=1e-6), pytest.approx(ends.high, abs=1e-6))
    cells = metric.confusion
    assert (cells.min, cells.max) == (0.5, None)
    assert (cells.both_pass, cells.only_metric_passes, cells.only_people_pass, cells.unknown) == (1, 1, 2, 0)
    labels.label("latest", "s0", "disagree", by="ben", metric="string_match", value=0.0)
    assert labels.measure_labels().metrics[0].confusion.split == 1
    assert {one.unknown for one in labels.measure_labels().metrics[0].agreement if one.value is None} >= {
        "1 of the 30 in common that are needed"
    }


def test_only_blind_labels_count_for_agreement(labelled):
    labelled.say("s0", ada="good", ben="bad")
    labelled.say("s0", ben="good")
    found = labels.measure_labels()
    (replies,) = found.replies
    raw = replies.agreement[0]
    assert (replies.good.value, raw.value, found.informed) == (1.0, 0.0, 1)
    labelled.say("s0", ben="withdrawn")
    (replies,) = labels.measure_labels().replies
    assert (replies.agreement[0].value, replies.agreement[0].unknown) == (None, "nothing has two blind ratings")


def test_samples_of_a_cluster_are_one_unit(project, labelled):
    project.evaluation["datasets"] = []
    project.dataset(
        "c", [{"id": f"s{n}", "metadata": {"doc": "one"}} for n in range(4)], metrics=["string_match"], cluster="doc"
    )
    labelled.run()
    for n in range(4):
        labelled.say(f"s{n}", ada="good")
    (replies,) = labels.measure_labels().replies
    assert (replies.good.labelled, replies.good.units, replies.good.value) == (4, 1, 1.0)
    assert (replies.good.interval, replies.good.unknown) == (None, "one is not enough for an interval")


def test_nothing_labelled(labelled):
    found = labels.measure_labels()
    assert (found.labellers, found.replies, found.metrics) == ({}, (), ())
    assert LabelFiles(STORE).read_all() == []


def test_terminal_and_document(labelled):
    labelled.say("s0", ada="good", ben="bad")
    labelled.say("s0", metric="string_match", ada="agree")
    told = labelled.project("labels", "stats")
    assert told.code == 0
    for said in (
        "3 labels",
        "qa: replies  1 labelled",
        "good: 50 %",
        "at the threshold ≥ 0.5: 1 metric and people pass",
    ):
        assert said in told.out
    document = labelled.project("labels", "stats", "--json").document
    assert document["replies"][0]["good"]["value"] == 0.5
    assert document["metrics"][0]["confusion"]["bothPass"] == 1
