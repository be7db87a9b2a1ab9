"""lm-evaluation-harness: what `--log_samples` writes, `samples_TASK_DATE.jsonl` with `results_DATE.json` beside it.

Read in lm_eval/evaluator.py and lm_eval/loggers/evaluation_tracker.py of release 0.4.13. A line is a document with its
scores after one filter. Each metric after each filter is a metric of its own, named as in the results.
"""

import re
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from msgspec import Struct, field

from evalspec.base.errors import InvalidInput, Problem
from evalspec.base.json_text import compute_digest, render_line
from evalspec.base.jsonl import read_json_lines
from evalspec.base.plural import counted
from evalspec.inputs.datasets.base import ForeignMetric, ForeignRun, Malformed
from evalspec.inputs.datasets.json_document import keys_at
from evalspec.inputs.logs import UNIT, UNKNOWN, ForeignLog, list_notes, score_number
from evalspec.model import AgentReply, Cause, Direction, Exchange, Sample, Score, StoredExchange
from evalspec.model.exchanges import compute_question_digest
from evalspec.model.fingerprints import AgentDigest, DatasetDigest, Fingerprint
from evalspec.model.typed_json import convert, parse_document, read_bytes

_NAME = re.compile(r"samples_(?P<task>.+)_(?P<date>\d{4}-\d\d-\d\dT[\d.:-]+)\.jsonl")
_RECORDED = {"doc_id", "doc", "target", "arguments", "resps", "filtered_resps"}
_KEYS = _RECORDED | {"filter", "metrics", "doc_hash", "prompt_hash", "target_hash"}
"""The keys of a line that are not scores."""
_OF_UNIT = {"acc", "acc_norm", "acc_bytes", "acc_mutual_info", "exact_match"}
"""Metrics of the harness whose values are from 0 to 1."""


class _Line(Struct, frozen=True):
    doc_id: int
    target: Any
    arguments: Any
    filtered_resps: list[Any]
    doc_hash: str = ""
    filter: str = "none"


_Scored = tuple[_Line, Mapping[str, Any]]
"""A line, and its values by metric."""


class _Config(Struct, frozen=True):
    model: str = ""
    model_args: Any = None
    gen_kwargs: Any = None


class _Counts(Struct, frozen=True):
    original: int
    effective: int


class _Results(Struct, frozen=True):
    """What the file of the results says of all tasks, by task."""

    config: _Config = _Config()
    configs: Mapping[str, Any] = {}
    higher_is_better: Mapping[str, Mapping[str, bool | None]] = {}
    samples: Mapping[str, _Counts] = field(name="n-samples", default_factory=dict)
    system_instruction: str | None = None
    chat_template: str | None = None
    lm_eval_version: str | None = None


def _recognises(_path: Path, head: bytes) -> bool:
    keys = keys_at(head)
    return keys >= _RECORDED or keys >= {"results", "configs", "versions", "n-shot"}


def _read(path: Path, shown_as: str) -> ForeignRun:
    named = _NAME.fullmatch(path.name)
    if named is None:
        fix = "name a file samples_TASK_DATE.jsonl; --log_samples writes it beside the results"
        raise InvalidInput(Problem("has no scores of single samples, or was renamed", fix, shown_as))
    beside = path.with_name(f"results_{named['date']}.json")
    shown = str(beside)
    results = convert(parse_document(read_bytes(beside), shown), _Results, shown) if beside.is_file() else _Results()
    problems: list[Problem] = []
    lines = [
        (convert(value, _Line, f"{shown_as}:{number}"), {name: value[name] for name in value.keys() - _KEYS})
        for number, value in read_json_lines(path, shown_as, problems)
    ]
    if problems:
        raise InvalidInput(problems)
    _refuse_twins([line for line, _ in lines])
    return _build(named["task"], lines, results)


def _refuse_twins(lines: Iterable[_Line]) -> None:
    seen = Counter((line.doc_id, line.filter) for line in lines)
    for (name, filtered), times in seen.items():
        if times > 1:
            raise Malformed(f"document {name} occurs {times} times after the filter '{filtered}'", "doc_id")


def _build(task: str, lines: Sequence[_Scored], results: _Results) -> ForeignRun:
    stated = {name: higher for name, higher in results.higher_is_better.get(task, {}).items() if higher is not None}
    names = {_name(metric, line): metric for line, values in lines for metric in sorted(values)}
    metrics = {
        name: ForeignMetric(
            UNIT if metric in _OF_UNIT else UNKNOWN, Direction.HIGHER if stated.get(metric, True) else Direction.LOWER
        )
        for name, metric in names.items()
    }
    given = [(_name(metric, line), value) for line, values in lines for metric, value in values.items()]
    of_corpus = metrics.keys() - {name for name, value in given if not isinstance(value, list | dict | str)}
    by_document: dict[int, list[_Scored]] = {}
    for line, values in lines:
        by_document.setdefault(line.doc_id, []).append((line, values))
    counts = results.samples.get(task) or _Counts(len(by_document), len(by_document))
    missing = counts.effective - len(by_document)
    return ForeignRun(
        task,
        [_to_stored_exchange(task, found, metrics, of_corpus) for found in by_document.values()],
        fingerprint=_describe(task, results, counts),
        notes=[
            *([] if results.config.model else ["no results_DATE.json beside it: the model and its prompt are unknown"]),
            "no failed requests: their documents are scored like wrong answers",
            *list_notes(metrics, [name for name, metric in names.items() if metric in stated]),
        ],
        metrics=metrics,
        unfinished=f"{counted(missing, 'document')} of {counts.effective:,} are not in the log"
        if missing > 0
        else None,
    )


def _describe(task: str, results: _Results, counts: _Counts) -> Fingerprint:
    """Return what was run. The task's templates and examples make the prompt, so their digest is the agent's."""
    config, version = results.config, results.lm_eval_version
    parts = [results.configs.get(task), results.system_instruction, results.chat_template, config.gen_kwargs]
    name = f"{config.model} {render_line(config.model_args)}" if config.model_args else config.model
    return Fingerprint(
        agent=AgentDigest(name, sha256=compute_digest(parts)) if config.model else None,
        recorded=True,
        datasets=(DatasetDigest(task, available=counts.original, selected=counts.effective),),
        versions={"lm_eval": version} if version else {},
    )


def _name(metric: str, line: _Line) -> str:
    return metric if line.filter == "none" else f"{metric},{line.filter}"


def _to_stored_exchange(
    task: str, found: Sequence[_Scored], metrics: Mapping[str, ForeignMetric], of_corpus: Collection[str]
) -> StoredExchange:
    """Return a document with its scores after each filter. The reply is that after the first filter.

    `of_corpus`: metrics that no document has a value of.
    """
    first = found[0][0]
    asked = first.arguments.get("gen_args_0", {}).get("arg_0", "") if isinstance(first.arguments, dict) else ""
    digest = compute_digest([first.doc_hash, first.target])[:16]
    sample = Sample(str(first.doc_id), str(asked), (str(first.target),), digest=f"lm_eval:{digest}")
    answers = [answer if isinstance(answer, str) else render_line(answer) for answer in first.filtered_resps]
    exchange = Exchange(sample, AgentReply("\n".join(answers)), question_digest=compute_question_digest(sample))
    known = {_name(name, line): value for line, values in found for name, value in values.items()}
    absent = Score.failed("the log has no value of it for this document")
    scores = {
        name: _score(known[name], metric, is_of_corpus=name in of_corpus) if name in known else absent
        for name, metric in metrics.items()
    }
    return StoredExchange(task, 1, exchange, scores)


def _score(value: Any, metric: ForeignMetric, *, is_of_corpus: bool) -> Score:
    if is_of_corpus:
        return Score.not_applicable("the harness computes it over all documents together", Cause.OTHER)
    return score_number(value, metric)


LM_EVAL = ForeignLog("lm_eval", "lm-evaluation-harness log", _recognises, _read)
