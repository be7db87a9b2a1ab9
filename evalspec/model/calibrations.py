"""How well a judge agrees with people, kept so that later runs can be compared with it, and how stable it is."""

from collections.abc import Mapping
from enum import StrEnum
from typing import Annotated

from msgspec import Meta

from evalspec.model.base import Interval, Number, Record
from evalspec.model.curation import Count
from evalspec.model.labels import LabelConfusion, LabelShare


class Cut(StrEnum):
    """What divides good from bad scores: the metric's THRESHOLD, or without one the MIDPOINT of its range."""

    THRESHOLD = "threshold"
    MIDPOINT = "midpoint"


class Disagreement(Record, frozen=True, kw_only=True):
    """A reply that judge and people place on different sides."""

    sample: Annotated[str, Meta(description="The id of the sample.")]
    attempt: Annotated[int, Meta(ge=1, description="The attempt, from 1.")] = 1
    judge: Annotated[Number, Meta(description="The judge's score.")]
    people: Annotated[Number, Meta(description="The mean of people's scores.")]
    reason: Annotated[str | None, Meta(description="The judge's reason; null: it gave none.")] = None


class BestThreshold(Record, frozen=True, kw_only=True):
    """The threshold on the judge's scores at which judge and people agree most often about which replies are good."""

    value: Annotated[Number, Meta(description="The threshold, in the unit of the scores.")]
    agreement: Annotated[Number, Meta(description="Share of labelled replies on which they agree there, 0 to 1.")]
    cross_validated: Annotated[
        Number,
        Meta(description="The same share, each reply with a threshold that was chosen without it, 0 to 1."),
    ]
    folds: Annotated[int, Meta(ge=2, description="Number of parts of the cross-validation.")]
    present: Annotated[Number, Meta(description="Share of replies on which they agree at the present threshold.")]

    @property
    def lost(self) -> float:
        """How much of the agreement is due to the choice by the same labels."""
        return self.agreement - self.cross_validated


class MetricIdentity(Record, frozen=True, kw_only=True):
    """Which judge was calibrated, for what."""

    dataset: Annotated[str, Meta(description="The dataset.")]
    metric: Annotated[str, Meta(description="The metric.")]
    identity: Annotated[
        Mapping[str, str], Meta(description="What the scores depend on: judge, prompt (of a rubric: its digest), …")
    ] = {}
    samples_sha256: Annotated[str | None, Meta(description="Hash of the samples; null: unknown.")] = None


class MetricCalibration(MetricIdentity, frozen=True, kw_only=True):
    """How well the judge of one metric agrees with people. Good is a score from `min` to `max` of the confusion."""

    cut: Annotated[Cut | None, Meta(description="What divides good from bad; null: see `reason`.")] = None
    labels: Annotated[Count, Meta(description="Labelled replies that count.")] = 0
    unscored: Annotated[Count, Meta(description="Labelled replies that the judge has not scored.")] = 0
    left_out: Annotated[Mapping[str, int], Meta(description="Labels that do not count, by reason.")] = {}
    confusion: Annotated[LabelConfusion | None, Meta(description="null: see `reason`.")] = None
    sensitivity: Annotated[
        LabelShare, Meta(description="Share that the judge calls good, of the replies that people call good.")
    ] = LabelShare()
    specificity: Annotated[
        LabelShare, Meta(description="Share that the judge calls bad, of the replies that people call bad.")
    ] = LabelShare()
    bias: Annotated[
        Number | None, Meta(description="Mean of judge − people, in the unit of the scores; null: unknown.")
    ] = None
    bias_interval: Annotated[Interval | None, Meta(description="95 % interval of `bias`; null: unknown.")] = None
    kappa: Annotated[
        Number | None, Meta(description="Kappa, weighted by squared differences; null: unknown, see `notes`.")
    ] = None
    kappa_interval: Annotated[Interval | None, Meta(description="95 % interval of `kappa`; null: unknown.")] = None
    best: Annotated[BestThreshold | None, Meta(description="null: unknown, see `notes`.")] = None
    disagreements: Annotated[
        tuple[Disagreement, ...], Meta(description="Largest difference first. A stored calibration has none.")
    ] = ()
    notes: Annotated[tuple[str, ...], Meta(description="What is unknown, and what to know about the numbers.")] = ()
    reason: Annotated[str | None, Meta(description="Why nothing is known; null: something is.")] = None


class Calibration(Record, frozen=True, kw_only=True):
    """The judged metrics of a run, compared with blind random labels of people."""

    run: Annotated[str, Meta(description="The run whose replies people labelled.")]
    at: Annotated[str, Meta(description="When it was computed, as 2026-11-21T10:37:06Z.")]
    metrics: Annotated[tuple[MetricCalibration, ...], Meta(description="One for each judged metric of a dataset.")] = ()


class TransportedShare(MetricIdentity, frozen=True, kw_only=True):
    """The share of good replies in a run, if the judge errs there as it did in its calibration."""

    replies: Annotated[Count, Meta(description="Replies that the judge scored.")] = 0
    missing: Annotated[Count, Meta(description="Replies that it could not score.")] = 0
    judge: Annotated[Number | None, Meta(description="Share that the judge calls good, 0 to 1; null: unknown.")] = None
    value: Annotated[Number | None, Meta(description="The corrected share, 0 to 1; null: unknown.")] = None
    interval: Annotated[Interval | None, Meta(description="95 % interval of `value`; null: unknown.")] = None
    tipping_point: Annotated[
        Number | None,
        Meta(description="Specificity at which the corrected share is at the limit; null: no limit, or none decides."),
    ] = None
    said: Annotated[
        str | None, Meta(description="What the tipping point means; null: the limit is not on a share.")
    ] = None
    notes: Annotated[tuple[str, ...], Meta(description="What to know about the numbers.")] = ()
    reason: Annotated[str | None, Meta(description="Why the share is unknown; null: it is known.")] = None


class Application(Record, frozen=True, kw_only=True):
    """A calibration that is applied to another run."""

    run: Annotated[str, Meta(description="The run.")]
    calibration: Annotated[str, Meta(description="The run whose replies people labelled.")]
    metrics: Annotated[tuple[TransportedShare, ...], Meta(description="One for each calibrated metric.")] = ()


class MetricStability(Record, frozen=True, kw_only=True):
    """How much the grades differ that a judge gives to one and the same reply."""

    dataset: Annotated[str, Meta(description="The dataset.")]
    metric: Annotated[str, Meta(description="The metric.")]
    cut: Annotated[Cut | None, Meta(description="What divides good from bad grades; null: nothing does.")] = None
    replies: Annotated[Count, Meta(description="Replies with two or more grades.")] = 0
    gradings: Annotated[Count, Meta(description="Their grades.")] = 0
    flipped: Annotated[Count, Meta(description="Replies with grades on both sides of the cut.")] = 0
    flips: Annotated[
        LabelShare, Meta(description="Share of the pairs of grades of one reply that are on different sides.")
    ] = LabelShare()
    judge_variance: Annotated[
        Number | None, Meta(description="Variance between grades of one reply, in the unit squared; null: unknown.")
    ] = None
    reply_variance: Annotated[
        Number | None, Meta(description="Variance between replies without the judge's part; null: unknown.")
    ] = None
    share: Annotated[
        Number | None, Meta(description="The judge's part of the variance of a single grade, 0 to 1; null: unknown.")
    ] = None
    repeats_needed: Annotated[
        Annotated[int, Meta(ge=1)] | None,
        Meta(description="Grades per reply for a part of at most 10 % of the variance of the mean; null: unknown."),
    ] = None
    notes: Annotated[tuple[str, ...], Meta(description="What is unknown.")] = ()


class Stability(Record, frozen=True, kw_only=True):
    """The judged metrics of a run whose replies were graded several times."""

    run: Annotated[str, Meta(description="The run.")]
    metrics: Annotated[tuple[MetricStability, ...], Meta(description="One for each judged metric of a dataset.")] = ()
