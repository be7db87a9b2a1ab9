"""What the log of a run holds, asking by asking: enough to go on from, with every text left on disk."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from evalspec.errors import StoreError
from evalspec.records import Exchange, JudgeUsage, Sample, SampleStatus, Score, Transcript
from evalspec.store.files import store_errors
from evalspec.store.log_records import (
    REPLY,
    parse_judge_usage,
    parse_line,
    parse_reply_record,
    parse_scores_record,
    read_log,
)


class AskingKey(NamedTuple):
    """One asking of one sample; `attempt` counts from 1."""

    dataset: str
    sample_id: str
    attempt: int


@dataclass(slots=True)
class StoredAsking:
    """What is known of one asking. `places`: the bytes at which its reply and its scores begin in the log."""

    places: list[int]
    status: SampleStatus
    latency_ms: float | None
    error: str | None
    unreachable: bool
    scores: dict[str, Score] = field(default_factory=dict)


@dataclass(slots=True)
class LogIndex:
    """All askings of a run, the last of each where it was asked again."""

    path: Path
    askings: dict[AskingKey, StoredAsking] = field(default_factory=dict)
    judge_usage: dict[str, JudgeUsage] = field(default_factory=dict)

    def read_exchange(self, asking: StoredAsking, sample: Sample) -> Exchange:
        """The reply of an asking with its texts.

        Raises:
            StoreError: the log cannot be read any more.
        """
        return next(self._read([asking.places[0]], sample)).exchange

    def read_transcripts(self, samples: Iterator[tuple[str, Sample]], attempts: int) -> Iterator[Transcript]:
        """Every asking of these samples (dataset, sample), in their order, with its texts and evidence.

        Raises:
            StoreError: the log cannot be read any more.
        """
        for dataset, sample in samples:
            for attempt in range(1, attempts + 1):
                asking = self.askings.get(AskingKey(dataset, sample.id, attempt))
                if asking is not None:
                    yield from self._read(asking.places, sample)

    def _read(self, places: list[int], sample: Sample) -> Iterator[Transcript]:
        with store_errors(self.path), self.path.open("rb") as log:
            records = []
            for place in places:
                log.seek(place)
                records.append(parse_line(log.readline(), f"{self.path}, byte {place}"))
        reply, *scored = records
        scores: dict[str, Score] = {}
        for record in scored:
            scores |= parse_scores_record(record, with_evidence=True)
        yield Transcript(reply["dataset"], reply["attempt"], parse_reply_record(reply, sample), scores)


def read_log_index(path: Path) -> LogIndex:
    """Read a log once, from its beginning to its end.

    Raises:
        StoreError: it cannot be read, or a line, named as `file:line`, is not a record.
    """
    index = LogIndex(path)
    for place, record in read_log(path):
        try:
            key = AskingKey(record["dataset"], record["id"], record["attempt"])
            if record["kind"] == REPLY:
                index.askings[key] = _parse_reply(record, place)
                continue
            _add_scores(index, key, record, place)
        except (KeyError, TypeError, ValueError) as error:
            raise StoreError(f"{path}, byte {place}: a {record['kind']} record is malformed: {error}") from error
    return index


def _parse_reply(record: Mapping[str, Any], place: int) -> StoredAsking:
    return StoredAsking(
        [place], SampleStatus(record["status"]), record["latencyMs"], record["error"], record["unreachable"]
    )


def _add_scores(index: LogIndex, key: AskingKey, record: Mapping[str, Any], place: int) -> None:
    asking = index.askings.get(key)
    if asking is None:
        raise ValueError(f"scores of sample {key.sample_id} without its reply before")
    asking.scores |= parse_scores_record(record, with_evidence=False)
    asking.places.append(place)
    for metric, used in parse_judge_usage(record).items():
        index.judge_usage[metric] = index.judge_usage.get(metric, JudgeUsage()) + used
