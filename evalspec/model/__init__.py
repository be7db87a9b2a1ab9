"""The types that stages pass to each other, and that reports and run logs store. Names are imported on first use."""

from typing import TYPE_CHECKING

from evalspec.base.lazy_names import attach

if TYPE_CHECKING:
    from evalspec.model.base import LARGEST_VALUE as LARGEST_VALUE
    from evalspec.model.conventions import HIGHEST_GRADE as HIGHEST_GRADE
    from evalspec.model.conventions import MAX_REPEATS as MAX_REPEATS
    from evalspec.model.corrections import Basis as Basis
    from evalspec.model.corrections import Controls as Controls
    from evalspec.model.corrections import Correction as Correction
    from evalspec.model.corrections import Draw as Draw
    from evalspec.model.corrections import DrawKind as DrawKind
    from evalspec.model.corrections import PeopleScore as PeopleScore
    from evalspec.model.corrections import PeopleScores as PeopleScores
    from evalspec.model.curation import Agreement as Agreement
    from evalspec.model.curation import AgreementMeasure as AgreementMeasure
    from evalspec.model.curation import Coverage as Coverage
    from evalspec.model.curation import Curation as Curation
    from evalspec.model.curation import DisputeSummary as DisputeSummary
    from evalspec.model.curation import DroppedTriple as DroppedTriple
    from evalspec.model.curation import FlagAlarm as FlagAlarm
    from evalspec.model.curation import FlagPeriod as FlagPeriod
    from evalspec.model.curation import FlagRate as FlagRate
    from evalspec.model.curation import Objection as Objection
    from evalspec.model.curation import ResolutionTime as ResolutionTime
    from evalspec.model.curation import SourceShare as SourceShare
    from evalspec.model.curation import SparseCell as SparseCell
    from evalspec.model.diagnosis import AlwaysRetrieved as AlwaysRetrieved
    from evalspec.model.diagnosis import Diagnosis as Diagnosis
    from evalspec.model.diagnosis import Distractor as Distractor
    from evalspec.model.diagnosis import MissingDocument as MissingDocument
    from evalspec.model.diagnosis import NeverRetrieved as NeverRetrieved
    from evalspec.model.diagnosis import QueryDiagnosis as QueryDiagnosis
    from evalspec.model.exchanges import FIRST_TOKEN as FIRST_TOKEN
    from evalspec.model.exchanges import NOT_ASKED as NOT_ASKED
    from evalspec.model.exchanges import STAGES as STAGES
    from evalspec.model.exchanges import TOTAL as TOTAL
    from evalspec.model.exchanges import AgentReply as AgentReply
    from evalspec.model.exchanges import AgentTurn as AgentTurn
    from evalspec.model.exchanges import Exchange as Exchange
    from evalspec.model.exchanges import SearchTrace as SearchTrace
    from evalspec.model.exchanges import World as World
    from evalspec.model.exchanges import is_cut_off as is_cut_off
    from evalspec.model.exchanges import known_finish_reason as known_finish_reason
    from evalspec.model.runs import Dataset as Dataset
    from evalspec.model.runs import DatasetResult as DatasetResult
    from evalspec.model.runs import RetrieverSettings as RetrieverSettings
    from evalspec.model.runs import Run as Run
    from evalspec.model.runs import StageLatency as StageLatency
    from evalspec.model.runs import describe_reuse as describe_reuse
    from evalspec.model.samples import CLAIMS_KEY as CLAIMS_KEY
    from evalspec.model.samples import Check as Check
    from evalspec.model.samples import Document as Document
    from evalspec.model.samples import ExpectedState as ExpectedState
    from evalspec.model.samples import Message as Message
    from evalspec.model.samples import Need as Need
    from evalspec.model.samples import Sample as Sample
    from evalspec.model.samples import SimulatedUser as SimulatedUser
    from evalspec.model.samples import Turn as Turn
    from evalspec.model.scores import Attempt as Attempt
    from evalspec.model.scores import Cause as Cause
    from evalspec.model.scores import SampleResult as SampleResult
    from evalspec.model.scores import SampleStatus as SampleStatus
    from evalspec.model.scores import Score as Score
    from evalspec.model.scores import ScoreStatus as ScoreStatus
    from evalspec.model.scores import StoredExchange as StoredExchange
    from evalspec.model.summaries import Direction as Direction
    from evalspec.model.summaries import LimitStatus as LimitStatus
    from evalspec.model.summaries import RepeatSummary as RepeatSummary
    from evalspec.model.summaries import SliceResult as SliceResult
    from evalspec.model.summaries import StatedLimit as StatedLimit
    from evalspec.model.summaries import Summary as Summary
    from evalspec.model.summaries import Threshold as Threshold
    from evalspec.model.summaries import Variance as Variance
    from evalspec.model.summaries import list_unenforced as list_unenforced
    from evalspec.model.tool_calls import ExpectedCall as ExpectedCall
    from evalspec.model.tool_calls import ToolCall as ToolCall
    from evalspec.model.usage import JudgePrice as JudgePrice
    from evalspec.model.usage import JudgeUsage as JudgeUsage
    from evalspec.model.usage import Usage as Usage
    from evalspec.model.usage import add_usage as add_usage
    from evalspec.model.verdicts import UNDECIDED as UNDECIDED
    from evalspec.model.verdicts import ComparedWith as ComparedWith
    from evalspec.model.verdicts import Confirmation as Confirmation
    from evalspec.model.verdicts import ConfirmationStatus as ConfirmationStatus
    from evalspec.model.verdicts import MeasurementChange as MeasurementChange
    from evalspec.model.verdicts import RegressionOutcome as RegressionOutcome
    from evalspec.model.verdicts import Verdict as Verdict
    from evalspec.model.verdicts import VerdictStatus as VerdictStatus

_NAMES = {
    "evalspec.model.base": "LARGEST_VALUE",
    "evalspec.model.conventions": "HIGHEST_GRADE MAX_REPEATS",
    "evalspec.model.corrections": "Basis Controls Correction Draw DrawKind PeopleScore PeopleScores",
    "evalspec.model.curation": (
        "Agreement AgreementMeasure Coverage Curation DisputeSummary DroppedTriple FlagAlarm FlagPeriod "
        "FlagRate Objection ResolutionTime SourceShare SparseCell"
    ),
    "evalspec.model.diagnosis": "AlwaysRetrieved Diagnosis Distractor MissingDocument NeverRetrieved QueryDiagnosis",
    "evalspec.model.exchanges": (
        "FIRST_TOKEN NOT_ASKED STAGES TOTAL AgentReply AgentTurn Exchange SearchTrace World is_cut_off "
        "known_finish_reason"
    ),
    "evalspec.model.runs": "Dataset DatasetResult RetrieverSettings Run StageLatency describe_reuse",
    "evalspec.model.samples": "CLAIMS_KEY Check Document ExpectedState Message Need Sample SimulatedUser Turn",
    "evalspec.model.scores": "Attempt Cause SampleResult SampleStatus Score ScoreStatus StoredExchange",
    "evalspec.model.summaries": (
        "Direction LimitStatus RepeatSummary SliceResult StatedLimit Summary Threshold Variance list_unenforced"
    ),
    "evalspec.model.tool_calls": "ExpectedCall ToolCall",
    "evalspec.model.usage": "JudgePrice JudgeUsage Usage add_usage",
    "evalspec.model.verdicts": (
        "UNDECIDED ComparedWith Confirmation ConfirmationStatus MeasurementChange RegressionOutcome Verdict "
        "VerdictStatus"
    ),
}
"""By module: the names that it defines. No name is also that of a module here, which would hide it."""

__all__, __getattr__, __dir__ = attach(__name__, _NAMES)
