"""The samples behind a FAIL with their texts: question, expected answer, answer, and what to do next."""

from collections.abc import Iterator, Mapping

from msgspec import Struct

from evalspec.model import DatasetResult, Run, SampleResult, StoredExchange, Threshold, VerdictStatus
from evalspec.reporters.base import StoredExchanges
from evalspec.reporters.findings import scores_beyond_limits
from evalspec.reporters.view.parts import Entries, Entry, Foreign, Line, Role, Section, Tone, Words, prose, quiet
from evalspec.reporters.wording import counted, render_beyond

_SHOWN = 3
_NEXT = "next: fix the agent, or the expected answer if that is wrong, and evaluate again"
_MOST_SAMPLES = 10_000
"""In runs with more samples, finding the texts of a few would take long. Their reports have all texts."""


class _Failing(Struct, frozen=True):
    """A score beyond a broken limit."""

    dataset: DatasetResult
    sample: SampleResult
    limit: Threshold

    @property
    def value(self) -> float:
        """The value of the score."""
        return self.sample.scores[self.limit.metric].value or 0.0

    @property
    def excess(self) -> float:
        """How far the score is beyond the limit."""
        return self.limit.excess(self.value)


def build_failing(run: Run, exchanges: StoredExchanges) -> Section | None:
    """Return the samples furthest beyond broken limits. None without a FAIL, without such samples, or without texts."""
    if run.verdict is not VerdictStatus.FAIL or not run.has_texts:
        return None
    if sum(len(dataset.samples) for dataset in run.datasets) > _MOST_SAMPLES:
        return None
    failing = _list_failing(run)
    texts = _find_texts(failing[:_SHOWN], exchanges) if failing else {}
    if not texts:
        return None
    entries = tuple(_build_entry(one, texts.get((one.dataset.name, one.sample.id))) for one in failing[:_SHOWN])
    title = f"Why it fails ({counted(len(failing), 'sample')})"
    listed = Entries("sample", entries, more=len(failing) - len(entries))
    parts = (listed, quiet(_NEXT), quiet(f"every sample: evalspec report {run.id} -o report.html"))
    return Section("failing", (title,), parts, "the texts of failing samples")


def _list_failing(run: Run) -> list[_Failing]:
    """Return the worst score of each failing sample, the furthest beyond its limit first."""
    worst: dict[tuple[str, str], _Failing] = {}
    for dataset in run.datasets:
        samples = {sample.id: sample for sample in dataset.samples}
        for (sample_id, _), limit in scores_beyond_limits(dataset).items():
            found = _Failing(dataset, samples[sample_id], limit)
            known = worst.setdefault((dataset.name, sample_id), found)
            if found.excess > known.excess:
                worst[dataset.name, sample_id] = found
    return sorted(worst.values(), key=lambda found: -found.excess)


def _find_texts(failing: list[_Failing], exchanges: StoredExchanges) -> Mapping[tuple[str, str], StoredExchange]:
    """Return the first attempt at each of the samples, unless its texts were erased."""
    missing = {(one.dataset.name, one.sample.id) for one in failing}
    found: dict[tuple[str, str], StoredExchange] = {}
    for stored in exchanges():
        key = (stored.dataset, stored.exchange.sample.id)
        if key in missing:
            missing.discard(key)
            found |= {key: stored} if stored.exchange.sample.question else {}
        if not missing:
            break
    return found


def _build_entry(failing: _Failing, stored: StoredExchange | None) -> Entry:
    file, line = failing.dataset.file, failing.sample.line
    place = f"{file}:{line}" if file and line else failing.dataset.name
    said: Words = (f"{failing.limit.metric} {render_beyond(failing.value, failing.limit)}",)
    name = Foreign(f"{failing.sample.id}, {place}")
    return Entry(name, said, Tone.FAIL, tuple(_list_lines(failing, stored)) if stored else ())


def _list_lines(failing: _Failing, stored: StoredExchange) -> Iterator[Line]:
    sample, reply = stored.exchange.sample, stored.exchange.reply
    yield _line("question: ", sample.question)
    if sample.references:
        yield _line("expected: ", " or ".join(sample.references))
    yield _line("got:      ", reply.response if reply is not None else f"no usable reply: {stored.exchange.error}")
    reason = failing.sample.scores[failing.limit.metric].reason
    if reason and not reason.startswith("answered "):
        yield Line(("why:      ", *prose(reason)))


def _line(label: str, text: str) -> Line:
    return Line((label, Foreign(text, Role.ANSWER)))
