"""Conversion of the results of `score` to a run."""

from collections.abc import Iterator, Sequence
from pathlib import Path

from evalspec import __version__
from evalspec.api.scoring import JUDGED, MEAN, NO_ANSWER, SHARES, Scored
from evalspec.base.errors import ExitCode
from evalspec.model import (
    Cause,
    DatasetResult,
    Run,
    SampleResult,
    SampleStatus,
    Score,
    Summary,
)
from evalspec.model.fingerprints import Fingerprint, ScoreDigest
from evalspec.verdict.stats import compute_statistic
from evalspec.verdict.validity.estimates import estimate

_MISSING = "the run has no results for this query"
_NOTHING_TO_JUDGE = "nothing was retrieved, so there is nothing to be judged"
_NOTHING_RELEVANT = "no document is judged relevant"
_ANSWERABLE = "the query has relevant documents"


def build_run(scored: Scored, qrels: Path, run: Path, notes: Sequence[str], *, per_query: bool) -> Run:
    """Return the measured values as a run without thresholds. `per_query`: include the queries as samples."""
    total = len(scored.measured.queries)
    dataset = DatasetResult(
        name=_name_dataset(qrels),
        selected=total,
        answered=total - len(scored.measured.missing),
        metrics={metric: _summarise(metric, scored) for metric in scored.columns},
        samples=tuple(_samples(scored)) if per_query else (),
    )
    return Run(
        id="score",
        exit_code=ExitCode.OK if scored.is_measured else ExitCode.UNMEASURED,
        reasons=("score has no thresholds",),
        notes=tuple(notes),
        fingerprint=Fingerprint(
            versions={"evalspec": __version__},
            score=ScoreDigest(str(qrels), str(run), scored.min_grade, scored.empty_qrels),
        ),
        datasets=(dataset,),
    )


def _name_dataset(qrels: Path) -> str:
    """Return the name of the ground truth in reports: its file or folder without suffixes."""
    path = qrels.resolve()
    return path.name if path.is_dir() else Path(path.name.removesuffix(".gz")).stem


def _summarise(metric: str, scored: Scored) -> Summary:
    """Return the summary that `summary.compute_summary` would return, without creating up to a million scores."""
    measured, column = scored.measured, scored.columns[metric]
    values = [value for value in column if value is not None]
    empty = (query for query, relevant in zip(measured.queries, measured.relevant, strict=True) if not relevant)
    failed = sum(query in measured.missing for query in empty) if metric == NO_ANSWER else 0
    from_reply = 0
    if metric.startswith(JUDGED):
        from_reply = sum(v is None and n > 0 for v, n in zip(column, measured.relevant, strict=True))
    away = {Cause.DATASET: len(column) - len(values) - failed - from_reply, Cause.REPLY: from_reply}
    found = estimate(values, MEAN, SHARES)
    return Summary(
        statistic=MEAN,
        value=compute_statistic(values, MEAN) if values else None,
        interval=found.interval,
        interval_method=found.method,
        no_interval=found.reason,
        units=found.units,
        bounds=SHARES,
        scored=len(values),
        failed=failed,
        not_applicable_causes={cause: count for cause, count in away.items() if count},
        median=compute_statistic(values, "median") if values else None,
    )


def _samples(scored: Scored) -> Iterator[SampleResult]:
    for place, query in enumerate(scored.measured.queries):
        missing = query in scored.measured.missing
        yield SampleResult(
            id=query,
            status=SampleStatus.FAILED if missing else SampleStatus.ANSWERED,
            error=_MISSING if missing else None,
            scores={metric: _score(scored, metric, place) for metric in scored.columns},
        )


def _score(scored: Scored, metric: str, place: int) -> Score:
    """Return one value as a score, with a reason if there is no value."""
    measured, value = scored.measured, scored.columns[metric][place]
    missing = measured.queries[place] in measured.missing
    if value is not None:
        return Score.scored(value, _MISSING if missing else None)
    if metric == NO_ANSWER:
        return Score.not_applicable(_ANSWERABLE, Cause.DATASET) if measured.relevant[place] else Score.failed(_MISSING)
    if metric.startswith(JUDGED):
        return Score.not_applicable(_NOTHING_TO_JUDGE, _unjudged_cause(measured.relevant[place]))
    return Score.not_applicable(_NOTHING_RELEVANT, Cause.DATASET)


def _unjudged_cause(relevant: int) -> Cause:
    """Return the same cause as metrics/retrieval.py: if nothing is relevant, retrieving nothing is right."""
    return Cause.REPLY if relevant else Cause.DATASET
