"""The texts behind the samples of sample_run: questions, answers, passages, some of them meant to break a report."""

from msgspec.structs import replace

from evalspec.model import (
    AgentReply,
    Attempt,
    Exchange,
    Message,
    Sample,
    SampleResult,
    SampleStatus,
    ToolCall,
    Usage,
)

HOSTILE_TEXT = (
    "<script>alert(1)</script></style><!-- ]]> --><img src=x onerror=alert(2)> | pipe `tick` | @team #12 "
    "[link](javascript:alert(3)) ![img](https://x.invalid/a.png) **bold**\r\n::error::owned %0A ##[error]owned\n"
    "\x00\x1b[31m \u202eevil\u202c \ud800 \U0001f9ea شكرا"
)
FORMULA = '=HYPERLINK("http://x.invalid","click") |\' /C calc\'!A0'
HOSTILE_DOCUMENTS = ("+returns", "</td>", "docs/4.md")
"""Ids, best first: the third is relevant and one of those that the sample brings no judgement on is first."""

_PASSAGES = (
    "You can return an item within 30 days of delivery. Send it back unused and in its original box.",
    "A refund is paid to the original payment method within 5 business days after we receive the item.",
    "Standard shipping takes 3 to 5 working days and is free for orders over 50 euros.",
)
_IDS = ("returns", "refunds", "shipping")
_CONVERSATION = (
    Message("system", "You are the help desk of a shop for lamps."),
    Message("user", "The switch stopped working."),
    Message("assistant", "I am sorry to hear that. How old is the lamp?"),
    Message("user", "8 months. Is that covered?"),
)


def exchange_of(dataset: str, sample: SampleResult, attempt: Attempt | SampleResult) -> Exchange:
    """What was asked and what came back in one asking of one sample of sample_run()."""
    asked = _asked(dataset, sample)
    if attempt.status is SampleStatus.FAILED:
        return Exchange(asked, error=attempt.error)
    return Exchange(asked, replace(_reply(dataset, sample.id, attempt), latency_ms=attempt.latency_ms))


def _asked(dataset: str, sample: SampleResult) -> Sample:
    asked = Sample(
        sample.id,
        "How long can I return a lamp?",
        references=("30 days", "a month"),
        reference_contexts=_PASSAGES[:1],
        qrels={"returns": 2, "refunds": 1, "express": 0},
        tags=sample.tags,
        metadata=sample.metadata,
        line=sample.line,
    )
    if sample.line is None or dataset.startswith("précision"):
        return replace(asked, user_input="返品は何日以内ですか。", references=(), reference_contexts=None, qrels=None)
    if dataset == "support-chat":
        return replace(asked, user_input=_CONVERSATION, references=("yes, 2 years",), retrieved_contexts=_PASSAGES)
    if sample.id.startswith("\x1b"):
        return replace(asked, user_input=HOSTILE_TEXT, references=(FORMULA,), qrels={"docs/4.md": 1, "</td>": 0})
    return asked


def _reply(dataset: str, sample_id: str, attempt: Attempt | SampleResult) -> AgentReply:
    if dataset == "support-chat":
        right = attempt.scores["string_match"].value == 1.0
        return AgentReply("Yes: the switch is covered, for 2 years." if right else "No.", usage=Usage(412, 23))
    if sample_id.startswith("\x1b"):
        return AgentReply(FORMULA + "\n" + HOSTILE_TEXT, (HOSTILE_TEXT, "", *_PASSAGES[:1]), HOSTILE_DOCUMENTS)
    if dataset == "rag-quality":
        tool_calls = (ToolCall("search", {"query": "return <lamp>"}),)
        return AgentReply("You can return it within 30 days.", _PASSAGES, _IDS, tool_calls, Usage(120, 9))
    return AgentReply("30日以内です。")
