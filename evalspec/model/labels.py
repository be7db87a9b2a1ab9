"""Labels: what people say about replies and scores of stored runs, and how well they agree."""

from collections.abc import Mapping
from enum import StrEnum
from typing import Annotated, Any

from msgspec import Meta

from evalspec.model.base import Interval, Number, Record
from evalspec.model.corrections import Draw
from evalspec.model.curation import Agreement, Count


class LabelVerdict(StrEnum):
    """What a person says: about a reply GOOD or BAD, about a score AGREE or DISAGREE. WITHDRAWN takes it back.

    RATED is a person's own score, with its value. Only RATED labels that were given without sight of the metric's score
    can correct a judge.
    """

    GOOD = "good"
    BAD = "bad"
    AGREE = "agree"
    DISAGREE = "disagree"
    RATED = "rated"
    WITHDRAWN = "withdrawn"

    @property
    def is_good(self) -> bool:
        """Whether the person has nothing against the reply or the score."""
        return self in (LabelVerdict.GOOD, LabelVerdict.AGREE)


class LabelUse(StrEnum):
    """What a label has helped to choose: the PROMPT of a metric, or its THRESHOLD."""

    PROMPT = "prompt"
    THRESHOLD = "threshold"


Target = tuple[str, str, int, str | None]
"""What a label is about: dataset, sample, attempt, metric."""
OF_REPLIES = (LabelVerdict.GOOD, LabelVerdict.BAD)
OF_SHOWN_SCORES = (LabelVerdict.AGREE, LabelVerdict.DISAGREE)
OF_SCORES = (*OF_SHOWN_SCORES, LabelVerdict.RATED)


class Answer(Record, frozen=True):
    """A person's answer to a question that the judge answers too, such as whether the contexts support a statement."""

    question: Annotated[str, Meta(description="The statement, passage or rubric that the answer is about.")]
    value: Annotated[Number, Meta(description="1: yes; 0: no; a grade of a rubric.")]


class DrawnReply(Record, frozen=True, kw_only=True):
    """A reply that was drawn for labelling, without what the judge says about it."""

    dataset: str
    sample: str
    attempt: Annotated[int, Meta(ge=1)]
    user_input: str | tuple[Any, ...]
    response: str
    contexts: tuple[str, ...] | None
    references: tuple[str, ...]
    asked: Annotated[str, Meta(description="The question to answer.")]
    about: Annotated[tuple[str, ...], Meta(description="The texts that it is about; empty: the reply as a whole.")]
    rubric: Annotated[str | None, Meta(description="The text to grade by: a rubric, or an earlier answer; null: none.")]
    grades: Annotated[Mapping[str, float], Meta(description="The possible answers; empty: any score within bounds.")]


class Label(Record, frozen=True, kw_only=True):
    """One person's verdict on a reply as a whole, or on the score of a metric for it, and what the person judged.

    A later label of the same person on the same thing replaces this one. `at`: UTC, as 2026-11-21T10:37:06.257123Z.
    """

    run: str
    dataset: str
    sample: str
    attempt: Annotated[int, Meta(ge=1)] = 1
    metric: Annotated[str | None, Meta(description="The metric of the score; null: the reply as a whole.")] = None
    verdict: LabelVerdict
    value: Annotated[Number | None, Meta(description="The score that the person would have given.")] = None
    note: str | None = None
    labeller: str
    at: str
    is_informed: Annotated[bool, Meta(description="Whether the person could see other labels on it before.")] = False
    is_blind: Annotated[
        bool, Meta(description="Whether it was given without sight of the metric's score, reason and verdicts.")
    ] = False
    draw: Annotated[Draw, Meta(description="How the reply came to be labelled.")] = Draw()
    answers: Annotated[
        tuple[Answer, ...], Meta(description="The answers that `value` is computed from; empty: it was given itself.")
    ] = ()
    used_for: Annotated[
        LabelUse | None,
        Meta(description="What it has helped to choose, so that it no longer corrects or calibrates; null: nothing."),
    ] = None
    sample_digest: Annotated[str | None, Meta(description="Hash of the sample; null: unknown, or erased.")] = None
    reply_digest: Annotated[str | None, Meta(description="Hash of the reply; null: erased.")] = None
    shown_value: Annotated[Number | None, Meta(description="The score as the person saw it; null for a reply.")] = None
    metric_key: Annotated[
        str | None, Meta(description="Changes with everything that scores of the metric depend on; null for a reply.")
    ] = None
    metric_identity: Annotated[
        Mapping[str, str],
        Meta(description="The parts of the metric's identity: judge, prompt (of a rubric: its digest), engine, …"),
    ] = {}

    @property
    def target(self) -> Target:
        """What the label is about, in any run: dataset, sample, attempt, metric."""
        return self.dataset, self.sample, self.attempt, self.metric

    @property
    def implied_value(self) -> float | None:
        """The score that the person would have given: the shown one for AGREE, None if it is unknown."""
        return self.shown_value if self.verdict is LabelVerdict.AGREE else self.value


class LabelShare(Record, frozen=True, kw_only=True):
    """The share of a verdict. Of something that several people labelled, each has an equal part."""

    labelled: Annotated[Count, Meta(description="Labelled replies, or scores.")] = 0
    units: Annotated[Count, Meta(description="Independent samples, or clusters of samples, among them.")] = 0
    value: Annotated[Number | None, Meta(description="null: unknown.")] = None
    interval: Annotated[Interval | None, Meta(description="95 % interval of the value; null: unknown.")] = None
    interval_method: Annotated[str | None, Meta(description="exact: Clopper and Pearson's; bounded: Gaffke's.")] = None
    unknown: Annotated[str | None, Meta(description="Why the value or the interval is unknown.")] = None


class LabelConfusion(Record, frozen=True, kw_only=True):
    """Scores by the side of the threshold on which the metric and people place them."""

    min: Annotated[Number | None, Meta(description="The lowest value that passes; null: no minimum.")] = None
    max: Annotated[Number | None, Meta(description="The highest value that passes; null: no maximum.")] = None
    both_pass: Annotated[Count, Meta(description="Both place it within the threshold.")] = 0
    both_fail: Annotated[Count, Meta(description="Both place it beyond the threshold.")] = 0
    only_metric_passes: Annotated[Count, Meta(description="Only the metric places it within.")] = 0
    only_people_pass: Annotated[Count, Meta(description="Only people place it within.")] = 0
    split: Annotated[Count, Meta(description="People place it on both sides.")] = 0
    unknown: Annotated[Count, Meta(description="Everybody disagrees, and nobody gives a value.")] = 0


class ReplyLabels(Record, frozen=True, kw_only=True):
    """The labels on the replies of a dataset. `good`: share of good replies."""

    dataset: str
    good: LabelShare
    agreement: tuple[Agreement, ...] = ()


class MetricLabels(Record, frozen=True, kw_only=True):
    """The labels on the scores of a metric. `agree`: how often people agree with the score."""

    dataset: str
    metric: str
    judge: Annotated[str | None, Meta(description="The judge as in the metric's identity; null: no judge.")] = None
    agree: LabelShare
    rated: Annotated[Count, Meta(description="Replies with a person's own score, which `agree` does not count.")] = 0
    agreement: tuple[Agreement, ...] = ()
    confusion: Annotated[LabelConfusion | None, Meta(description="null: the metric has no threshold.")] = None


class LabelStats(Record, frozen=True, kw_only=True):
    """What the labels of a store say about one run."""

    run: str
    labellers: Annotated[Mapping[str, int], Meta(description="Number of labels that count, by person.")] = {}
    carried: Annotated[
        Mapping[str, int],
        Meta(description="Labels of other runs that count, because reply and score are equal; by run."),
    ] = {}
    reusable: Annotated[
        Mapping[str, int],
        Meta(
            description="Labels that do not count but give a value, by run: reply and metric are equal, but the judge "
            "or the score is another."
        ),
    ] = {}
    left_out: Annotated[Mapping[str, int], Meta(description="Other labels that do not count, by reason.")] = {}
    informed: Annotated[Count, Meta(description="Labels that count, but not for the agreement of people.")] = 0
    hidden: Annotated[
        Count, Meta(description="Labels of others that are not counted, because the viewer may not see them yet.")
    ] = 0
    replies: tuple[ReplyLabels, ...] = ()
    metrics: tuple[MetricLabels, ...] = ()
