"""The baseline of a gate: a small file for git, with what a later run is held against and no text of any sample.

One line a sample, in the order of their ids, so that a difference reads as the samples that changed.
"""

import json
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from evalspec.errors import InvalidInput, Problem
from evalspec.records import (
    Attempt,
    DatasetResult,
    Direction,
    Run,
    SampleResult,
    SampleStatus,
    Score,
    Verdict,
    VerdictStatus,
)
from evalspec.reporters.checked_json import (
    Malformed,
    by_key,
    check_version,
    each,
    growing,
    malformed,
    mapping,
    member_of,
    number,
    optional,
    refuse,
    take,
    text,
)
from evalspec.reporters.report_reading import score_of
from evalspec.summary import summarise

KIND = "evalspec baseline"
FOLDER = Path("evals") / "baselines"

_KEPT = ("startedAt", "datasets", "selection", "repeats", "judge", "judgeSha256", "embeddingsSha256", "versions")
_OF_DATASET = ("name", "sha256", "available", "selected", "selectionSha256")
_WITHHELD = "not kept in a baseline"


def find_baseline(manifest_folder: Path, name: str) -> Path:
    """Where the baseline of that name is, or belongs: `evals/baselines/<name>.json` beside the manifest.

    A name with a path separator, or that ends with .json, is a path from the manifest's folder.
    """
    separators = {os.sep, os.altsep or os.sep, "/"}
    if name.endswith(".json") or any(separator in name for separator in separators):
        return manifest_folder / name
    return manifest_folder / FOLDER / f"{name}.json"


def render_baseline(run: Run) -> str:
    """The baseline file of a run; the same run always gives the same text.

    Raises:
        InvalidInput: the run holds no sample, so that nothing could be held against it.
    """
    if not any(dataset.samples for dataset in run.datasets):
        raise InvalidInput(f"run {run.id} holds no scores of single samples", "promote a run of `evalspec evaluate`")
    head = {
        "schemaVersion": 1,
        "kind": KIND,
        "runId": run.id,
        "fingerprint": _fingerprint(run.fingerprint),
    }
    lines = [f"{_json(key)}: {_json(value)}" for key, value in head.items()]
    datasets = ",\n".join(_render_dataset(dataset) for dataset in run.datasets)
    return "{\n" + ",\n".join(lines) + f',\n"datasets": [\n{datasets}\n]\n}}\n'


def build_baseline(document: Mapping[str, Any], shown_as: str) -> Run:
    """The run of a baseline file that is parsed already; of its metrics there are values, of its limits none.

    Raises:
        InvalidInput: it is no baseline that this version understands.
    """
    check_version(document, shown_as)
    try:
        with growing():
            return Run(
                id=take(document, "runId", text),
                verdict=Verdict(VerdictStatus.NOT_GATED),
                exit_code=0,
                datasets=take(document, "datasets", each(_dataset)),
                fingerprint=take(document, "fingerprint", mapping),
                has_texts=False,
            )
    except Malformed as error:
        raise malformed(error, shown_as) from error


def refuse_missing(path: Path) -> InvalidInput:
    """What to say where there is no baseline."""
    return InvalidInput(
        Problem("there is no such baseline", f"write it with `evalspec runs promote RUN --as {path.stem}`", str(path))
    )


def _fingerprint(fingerprint: Mapping[str, Any]) -> dict[str, Any]:
    """What decides whether another run can be compared; no paths and addresses but the judge's."""
    kept = {key: fingerprint[key] for key in _KEPT if key in fingerprint}
    if isinstance(kept.get("datasets"), list):
        kept["datasets"] = [{key: entry[key] for key in _OF_DATASET if key in entry} for entry in kept["datasets"]]
    return kept


def _render_dataset(dataset: DatasetResult) -> str:
    metrics = {
        metric: {"statistic": summary.statistic, "direction": str(dataset.direction[metric])}
        for metric, summary in dataset.summaries.items()
    }
    statistics = {metric: summary.statistic for metric, summary in dataset.summaries.items()}
    ordered = sorted(dataset.samples, key=lambda sample: sample.id)
    samples = ",\n".join(_json(_describe_sample(sample, statistics)) for sample in ordered)
    head = f'"name": {_json(dataset.name)},\n"metrics": {_json(metrics)}'
    return f'{{{head},\n"samples": [\n{samples}\n]}}'


def _describe_sample(sample: SampleResult, statistics: Mapping[str, str]) -> dict[str, Any]:
    scores = {metric: _describe_score(sample, metric, statistics.get(metric, "mean")) for metric in sample.scores}
    return {"id": sample.id, "status": str(sample.status), "passRate": sample.pass_rate, "scores": scores}


def _describe_score(sample: SampleResult, metric: str, statistic: str) -> Any:
    """The value in full, or the status of one that has none; of a percentile the values of all attempts."""
    if statistic != "mean" and sample.attempts:
        return [_value(attempt.scores.get(metric)) for attempt in sample.attempts]
    return _value(sample.scores[metric])


def _value(score: Score | None) -> float | str:
    if score is None:
        return "failed"
    return str(score.status) if score.value is None else score.value


def _json(value: Any) -> str:
    """One line; ASCII where the text could steer a terminal, or has no UTF-8 form."""
    plain = json.dumps(value, ensure_ascii=False, allow_nan=False)
    return plain if plain.isprintable() else json.dumps(value, allow_nan=False)


def _dataset(fields: Mapping[str, Any]) -> DatasetResult:
    statistics = take(fields, "metrics", by_key(lambda metric: take(metric, "statistic", text)))
    direction = take(fields, "metrics", by_key(lambda metric: take(metric, "direction", member_of(Direction))))
    samples = take(fields, "samples", each(_sample))
    for sample in samples:
        missing = next((metric for metric in statistics if metric not in sample.scores), None)
        if missing is not None:
            raise Malformed(f"sample {sample.id} has no score of {missing}", "samples")
    return DatasetResult(
        name=take(fields, "name", text),
        direction=direction,
        samples=samples,
        summaries=summarise(samples, statistics),
        outcomes=(),
    )


_status = member_of(SampleStatus)


def _sample(fields: Mapping[str, Any]) -> SampleResult:
    status = take(fields, "status", _status)
    given = take(fields, "scores", mapping)
    attempts = tuple(_attempts(given))
    return SampleResult(
        id=take(fields, "id", text),
        status=status,
        error=_WITHHELD if status is SampleStatus.FAILED else None,
        scores=take(fields, "scores", by_key(_score)),
        pass_rate=take(fields, "passRate", optional(number)),
        attempts=attempts,
    )


def _attempts(given: Mapping[str, Any]) -> Iterator[Attempt]:
    """The attempts as far as they are kept: their values of percentiles."""
    kept = {metric: [_score(value) for value in values] for metric, values in given.items() if isinstance(values, list)}
    lengths = {len(values) for values in kept.values()}
    if len(lengths) > 1:
        raise Malformed("lists of attempts are of the same length", "scores")
    for place in range(max(lengths, default=0)):
        yield Attempt(SampleStatus.ANSWERED, scores={metric: values[place] for metric, values in kept.items()})


def _score(value: Any) -> Score:
    """A number, the status of a score without one, or a list of them: their mean, if all are known."""
    if isinstance(value, list) and value:
        parts = [_score(part) for part in value]
        values = [part.value for part in parts if part.value is not None]
        unknown = next((part for part in parts if part.value is None), None)
        if not values or (unknown is not None and str(unknown.status) != "not_applicable"):
            return unknown or refuse("a number or a status", value)
        return Score.scored(sum(values) / len(values))
    if isinstance(value, str):
        return score_of(value, None, _WITHHELD)
    return Score.scored(number(value))
