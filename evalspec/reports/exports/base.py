"""The type of an exporter, and what exporters send of a run: a result for each metric of each attempt."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from itertools import islice
from typing import Protocol, TypeVar

from msgspec import Struct

from evalspec.base.errors import check_packages
from evalspec.base.plural import counted
from evalspec.base.registry import Registry
from evalspec.inputs.manifest.export_schema import ExportConfig
from evalspec.model import Exchange, Run, Score, ScoreStatus, Threshold
from evalspec.reports.base import StoredExchanges
from evalspec.reports.findings import is_beyond, limits_of
from evalspec.reports.rows import AttemptRow, read_attempts
from evalspec.verdict.summary import in_slice

T = TypeVar("T")
_SENT = (ScoreStatus.SCORED, ScoreStatus.FAILED)
"""Other systems have no word for a metric that is not applicable or was skipped."""


class Sender(Protocol):
    """Sends a run to another system."""

    async def __call__(self, run: Run, exchanges: StoredExchanges, to: ExportConfig, /) -> str:
        """Send a finished run, and return in words what was sent, such as `40 results to http://…`.

        Secrets are redacted in the run and its texts. References in `to` are resolved, so its headers may be secret.
        An exception fails only this export. The message of a ServiceError is shown as it is.
        """
        ...


class Exporter(Struct, frozen=True):
    """An exporter. `name`: of `--export`, and of its settings in the manifest.

    `imports`: required packages that not every installation has. `extra`: evalspec's extra that installs them.
    `connects_itself`: a package opens the connections and reads variables of its own, so evalspec can neither add
    headers nor say which hosts it reaches.
    """

    name: str
    send: Sender
    imports: tuple[str, ...] = ()
    extra: str = ""
    connects_itself: bool = False

    def register(self, registry: "Registry[Exporter]") -> None:
        """Register the exporter under its name.

        Raises:
            ValueError: The name is taken.
        """
        registry.add(self.name, self)

    def check_installed(self) -> None:
        """Check that the required packages are installed, without importing them.

        Raises:
            MissingPackage: One of `imports` is not installed.
        """
        check_packages(f"--export {self.name}", self.imports, self.extra)


EXPORTERS: Registry[Exporter] = Registry("exporter", "evalspec.exporters", ("evalspec.reports.exports",), Exporter)


class ExportedScore(Struct, frozen=True):
    """A score of one attempt. `attempt`: None: the metric is about all attempts of the sample.

    `label`: `pass` or `fail`, by the limits of single replies; None: there is none, or no value. `span`: trace id and
    span id of the attempt; None: it has none.
    """

    row: AttemptRow
    metric: str
    score: Score
    attempt: int | None
    label: str | None
    span: tuple[str, str] | None


def find_span(exchange: Exchange | None) -> tuple[str, str] | None:
    """Return the trace id and the span id of what the agent did for the answer, in hex; None: no such span is stored.

    It is the first span right below those that evalspec named. The last request of a conversation counts.
    """
    traced = exchange.reply.traced if exchange and exchange.reply else None
    if exchange is None or traced is None:
        return None
    own = [one for one in exchange.spans if one.trace_id == traced.trace_id and one.parent_id in traced.answered]
    first = min(own, key=lambda span: span.start_ns, default=None)
    return None if first is None else (first.trace_id, first.span_id)


def iterate_scores(run: Run, exchanges: StoredExchanges, counts: Counter[str]) -> Iterator[ExportedScore]:
    """Yield the scores to send: those of every attempt, and those over all attempts with the last one.

    `counts`: gets the number of scores by status, also of those that are not sent.
    """
    limits = {dataset.name: limits_of(dataset) for dataset in run.datasets}
    for row in read_attempts(run, exchanges):
        of_all = row.sample.scores if row.number == len(row.sample.attempts) else {}
        scores: dict[str, tuple[Score, int | None]] = {metric: (score, None) for metric, score in of_all.items()}
        scores |= {metric: (score, row.number) for metric, score in row.scores.items()}
        counts.update(score.status for score, _ in scores.values())
        for metric, (score, attempt) in scores.items():
            if score.status in _SENT:
                label = _label(row, metric, score, limits[row.dataset.name])
                yield ExportedScore(row, metric, score, attempt, label, find_span(row.exchange))


def _label(row: AttemptRow, metric: str, score: Score, limits: Mapping[str, list[Threshold]]) -> str | None:
    is_limited = any(in_slice(row.sample, limit.slice) for limit in limits.get(metric, ()))
    if score.value is None or not is_limited:
        return None
    return "fail" if is_beyond(row.sample, metric, score, limits) else "pass"


def iterate_batches(items: Iterable[T], size: int) -> Iterator[list[T]]:
    """Yield the items in lists of a size. The last one may be shorter."""
    left = iter(items)
    while batch := list(islice(left, size)):
        yield batch


def describe_sent(counts: Mapping[str, int]) -> str:
    """Return in words how many scores were sent, and how many were not."""
    sent, failed = sum(counts.get(status, 0) for status in _SENT), counts.get(ScoreStatus.FAILED, 0)
    others = {status: count for status, count in counts.items() if status not in _SENT and count}
    more = "".join(f", {count:,} {status.replace('_', ' ')} not sent" for status, count in others.items())
    return f"{counted(sent, 'result')}{f' ({failed:,} failed)' if failed else ''}{more}"
