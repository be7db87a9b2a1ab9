"""The baseline of a gate: a small file for git, with what a later run is held against and no text of any sample.

One line a sample, in the order of their ids, so that a difference reads as the samples that changed.
"""

import os
from collections.abc import Mapping, Sequence
from math import inf
from pathlib import Path
from typing import Any

from evalspec.attempts import combine_scores
from evalspec.errors import InvalidInput, Problem
from evalspec.json_text import render_line
from evalspec.output_files import is_stream
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
    fingerprint,
    flag,
    growing,
    malformed,
    mapping,
    member_of,
    number,
    optional,
    pair,
    parse_document,
    read_bytes,
    statistic,
    take,
    text,
)
from evalspec.reporters.report_reading import score_of
from evalspec.summary import compute_summary, pool_scores

KIND = "evalspec baseline"
FOLDER = Path("evals") / "baselines"

_KEPT = (
    "startedAt",
    "datasets",
    "selection",
    "repeats",
    "judge",
    "judgeSha256",
    "embeddingsSha256",
    "versions",
    "bestOf",
)
_OF_DATASET = ("name", "sha256", "available", "selected", "selectionSha256", "metricIdentities")
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
    lines = [f"{render_line(key)}: {render_line(value)}" for key, value in head.items()]
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
                fingerprint=take(document, "fingerprint", fingerprint),
                has_texts=False,
            )
    except Malformed as error:
        raise malformed(error, shown_as) from error


def refuse_missing(path: Path) -> InvalidInput:
    """What to say where there is no baseline."""
    return InvalidInput(
        Problem("there is no such baseline", f"write it with `evalspec runs promote RUN --as {path.stem}`", str(path))
    )


def refuse_other_file(path: Path) -> None:
    """See that a baseline is written only where there is none of another kind of file.

    Raises:
        InvalidInput: there is a file that is no promoted baseline, a report too.
    """
    if is_stream(path) or not path.exists():
        return
    try:
        kind = parse_document(read_bytes(path), str(path)).get("kind")
    except InvalidInput:
        kind = None
    if kind != KIND:
        fix = "choose another name, or move the file away"
        raise InvalidInput(Problem("this file exists and is not a promoted baseline", fix, str(path), field="--as"))


def _fingerprint(given: Mapping[str, Any]) -> dict[str, Any]:
    """What decides whether another run can be compared; no paths and addresses but the judge's."""
    kept = {key: given[key] for key in _KEPT if key in given}
    if isinstance(kept.get("datasets"), list):
        kept["datasets"] = [{key: entry[key] for key in _OF_DATASET if key in entry} for entry in kept["datasets"]]
    return kept


def _render_dataset(dataset: DatasetResult) -> str:
    metrics = {
        metric: {"statistic": summary.statistic, "direction": str(dataset.direction[metric]), "bounds": summary.bounds}
        for metric, summary in dataset.summaries.items()
    }
    ordered = sorted(dataset.samples, key=lambda sample: sample.id)
    samples = ",\n".join(render_line(_describe_sample(sample)) for sample in ordered)
    head = f'"name": {render_line(dataset.name)},\n"metrics": {render_line(metrics)}'
    return f'{{{head},\n"samples": [\n{samples}\n]}}'


def _describe_sample(sample: SampleResult) -> dict[str, Any]:
    described: dict[str, Any] = {
        "id": sample.id,
        "digest": sample.digest,
        "status": str(sample.status),
        "passRate": sample.pass_rate,
        "scores": {metric: _describe_score(sample, metric) for metric in sample.scores},
    }
    if sample.attempts:
        described["passes"] = [attempt.passed for attempt in sample.attempts]
    return described


def _describe_score(sample: SampleResult, metric: str) -> Any:
    """The value in full, or the status of one that has none; a list of them where there are several attempts."""
    if sample.attempts:
        return [_value(attempt.scores.get(metric)) for attempt in sample.attempts]
    return _value(sample.scores[metric])


def _value(score: Score | None) -> float | str:
    if score is None:
        return "failed"
    return str(score.status) if score.value is None else score.value


def _dataset(fields: Mapping[str, Any]) -> DatasetResult:
    statistics = take(fields, "metrics", by_key(lambda metric: take(metric, "statistic", statistic)))
    direction = take(fields, "metrics", by_key(lambda metric: take(metric, "direction", member_of(Direction))))
    bounds = take(fields, "metrics", by_key(lambda metric: take(metric, "bounds", optional(pair), None)))
    samples = take(fields, "samples", each(_sample))
    single = [metric for metric, name in statistics.items() if name != "mean"]
    for sample in samples:
        missing = next((metric for metric in statistics if metric not in sample.scores), None)
        if missing is not None:
            raise Malformed(f"sample {sample.id} has no score of {missing}", "samples")
        bare = next((metric for metric in single if sample.attempts and metric not in sample.attempts[0].scores), None)
        if bare is not None:
            raise Malformed(f"sample {sample.id} has no list of attempts of {bare}", "samples")
        _refuse_impossible(sample, bounds)
    return DatasetResult(
        name=take(fields, "name", text),
        direction=direction,
        samples=samples,
        summaries={
            metric: compute_summary(metric, name, pool_scores(samples, metric, name)[0], None, bounds[metric])
            for metric, name in statistics.items()
        },
        outcomes=(),
    )


def _refuse_impossible(sample: SampleResult, bounds: Mapping[str, tuple[float, float] | None]) -> None:
    for scores in (sample.scores, *(attempt.scores for attempt in sample.attempts)):
        for metric, score in scores.items():
            low, high = bounds.get(metric) or (-inf, inf)
            if score.value is not None and not low <= score.value <= high:
                fault = f"{metric} of sample {sample.id} is {score.value:g}, outside {low:g} to {high:g}"
                raise Malformed(fault, "samples")


_status = member_of(SampleStatus)


def _sample(fields: Mapping[str, Any]) -> SampleResult:
    status = take(fields, "status", _status)
    return SampleResult(
        id=take(fields, "id", text),
        status=status,
        error=_WITHHELD if status is SampleStatus.FAILED else None,
        scores=take(fields, "scores", by_key(_score)),
        pass_rate=take(fields, "passRate", optional(number)),
        attempts=_attempts(take(fields, "scores", mapping), take(fields, "passes", each(optional(flag)), None)),
        digest=take(fields, "digest", optional(text), None),
    )


def _attempts(given: Mapping[str, Any], passes: Sequence[bool | None] | None) -> tuple[Attempt, ...]:
    """The attempts: their scores, and whether each passed. The oldest files have only the percentiles of them."""
    kept = {metric: [_score(value) for value in values] for metric, values in given.items() if isinstance(values, list)}
    lengths = {len(values) for values in [*kept.values(), *([] if passes is None else [passes])]}
    if len(lengths) > 1:
        raise Malformed("the lists of attempts are not of the same length", "scores")
    count = max(lengths, default=0)
    return tuple(
        Attempt(SampleStatus.ANSWERED, scores={metric: values[place] for metric, values in kept.items()}, passed=passed)
        for place, passed in enumerate([None] * count if passes is None else passes)
    )


def _score(value: Any) -> Score:
    """A number, the status of a score without one, or a list of them, which is combined as attempts are."""
    if isinstance(value, list) and value:
        return combine_scores([_score(part) for part in value])
    if isinstance(value, str):
        return score_of(value, None, _WITHHELD)
    return Score.scored(number(value))
