"""The reports that are rows: CSV, JSON Lines and Parquet, each read back by a reader that knows nothing of it."""

import csv
import io
import json
import subprocess
import sys
from typing import Any

import pyarrow.parquet
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from evalspec.base.errors import MissingPackage
from evalspec.model import Run
from evalspec.reports.attempt_lines import render_csv, render_jsonl
from evalspec.reports.base import no_exchanges, reporter_for
from evalspec.reports.parquet import MORE_COLUMNS, render_parquet
from evalspec.reports.rows import COLUMNS, cause_column, identify, read_attempts, score_columns, timing_columns
from reporters.sample_retrieval import retrieval_exchanges, retrieval_run
from reporters.sample_run import HOSTILE_ID, sample_exchanges, sample_run
from reporters.sample_texts import FORMULA, HOSTILE_DOCUMENTS, HOSTILE_TEXT
from reporters.small_runs import exchanges_full_of, run_full_of

ANY_TEXT = st.text(st.characters(codec=None, exclude_categories=()), min_size=1, max_size=30)


def csv_rows(run: Run, exchanges=sample_exchanges) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(render_csv(run, exchanges).decode(), newline=""), strict=True))


def jsonl_records(run: Run, exchanges=sample_exchanges) -> list[dict]:
    return [json.loads(line) for line in render_jsonl(run, exchanges).splitlines()]


def parquet_rows(run: Run, exchanges=sample_exchanges) -> list[dict]:
    table = pyarrow.parquet.read_table(io.BytesIO(render_parquet(run, exchanges)))
    return table.to_pylist()


def test_every_asking_and_score_is_a_row_in_all_three():
    run = sample_run()
    expected = [
        (dataset.name, sample.id, number, metric, score.status, score.value)
        for dataset in run.datasets
        for sample in dataset.samples
        for number, attempt in enumerate(list[Any](sample.attempts or (sample,)), 1)
        for metric, score in attempt.scores.items()
    ]
    keys = ("dataset", "sample_id", "attempt", "metric", "score_status", "value")
    assert [tuple(row[key] for key in keys) for row in parquet_rows(run)] == [
        (dataset, sample_id.encode("utf-8", "backslashreplace").decode(), *rest)
        for dataset, sample_id, *rest in expected
    ]
    assert [
        (record["dataset"], record["sample_id"], record["attempt"], metric, score["status"], score["value"])
        for record in jsonl_records(run)
        for metric, score in record["scores"].items()
    ] == expected
    from_csv = [(row["dataset"], int(row["attempt"]), row["metric"], row["score_status"]) for row in csv_rows(run)]
    assert from_csv == [(row[0], row[2], row[3], row[4]) for row in expected]
    assert [float(row["value"]) if row["value"] else None for row in csv_rows(run)] == [row[5] for row in expected]


RENAMED = {"user_input": {"question", "messages"}, "usage": {"input_tokens", "output_tokens"}}
RENAMED["scores"] = {"metric", "value", "score_status", "score_cause", "reason", "evidence", "judge_repeats"}
TYPES = {
    "text": "text",
    "texts": "list of text",
    "whole": "integer",
    "number": "number",
    "numbers": "list of numbers",
    "truth": "boolean",
    "grades": "map of text to integer",
    "messages": "list of role and content",
}


@pytest.mark.parametrize(
    ("run", "exchanges"), [(sample_run(), sample_exchanges), (run_full_of("x"), lambda: exchanges_full_of("x"))]
)
def test_parquet_has_what_json_lines_has(run, exchanges):
    rows = iter(parquet_rows(run, exchanges))
    for record in jsonl_records(run, exchanges):
        assert set().union(*(RENAMED.get(key, {key}) for key in record)) <= {*COLUMNS, *MORE_COLUMNS}
        for _ in record["scores"] or [None]:
            row = next(rows)
            for name in ("line", "steps", "ended", "finish_reason", "question_digest", "request_digest", "latency_ms"):
                assert row[name] == record[name]
            for name in ("tool_calls", "turns", "groups"):
                assert (row[name] and json.loads(row[name])) == record[name]
            for name in ("input_tokens", "output_tokens"):
                assert row[name] == (record["usage"] or {}).get(name)
    assert next(rows, None) is None


def test_what_is_not_known_is_empty_and_has_a_status():
    unknown = [row for row in csv_rows(sample_run()) if row["score_status"] != "scored"]
    assert {row["value"] for row in unknown} == {""}
    assert {row["score_status"] for row in unknown} == {"failed", "skipped", "not_applicable"}
    unanswered = [row for row in parquet_rows(sample_run()) if row["sample_status"] == "failed"]
    assert {(row["latency_ms"], row["response"], row["passed"]) for row in unanswered} == {(None, None, None)}
    assert all(row["error"] for row in unanswered)


def test_a_sample_without_scores_is_a_row_all_the_same():
    run = sample_run()
    dataset = replace(run.datasets[2], samples=tuple(replace(s, scores={}) for s in run.datasets[2].samples))
    bare = replace(run, datasets=(dataset,))
    assert [row["sample_id"] for row in csv_rows(bare, no_exchanges)] == [s.id for s in dataset.samples]
    assert {row["metric"] for row in parquet_rows(bare, no_exchanges)} == {None}
    assert len(jsonl_records(bare, no_exchanges)) == len(dataset.samples)


def test_texts_come_with_their_sample_and_asking():
    hostile = next(record for record in jsonl_records(sample_run()) if record["sample_id"] == HOSTILE_ID)
    assert (hostile["user_input"], hostile["response"]) == (HOSTILE_TEXT, f"{FORMULA}\n{HOSTILE_TEXT}")
    assert hostile["retrieved_context_ids"] == list(HOSTILE_DOCUMENTS)
    assert hostile["qrels"] == {"docs/4.md": 1, "</td>": 0}
    second = next(row for row in parquet_rows(sample_run()) if (row["sample_id"], row["attempt"]) == ("c-2", 2))
    assert (second["question"], second["response"]) == ("8 months. Is that covered?", "No.")
    assert [message["role"] for message in second["messages"]] == ["system", "user", "assistant", "user"]
    judged = next(row for row in parquet_rows(sample_run()) if row["metric"] == "faithfulness" and row["value"] == 0.02)
    assert judged["judge_repeats"] == [0.0, 0.04]
    assert [item["verdict"] for item in json.loads(judged["evidence"])["statements"]] == [1, 0]


@pytest.mark.parametrize(
    ("run", "exchanges"),
    [(sample_run(), no_exchanges), (replace(sample_run(), has_texts=False), sample_exchanges)],
    ids=["not kept", "not wanted"],
)
def test_without_texts_no_row_is_missing_and_the_columns_are_empty(run, exchanges):
    rows = parquet_rows(run, exchanges)
    assert len(rows) == len(parquet_rows(sample_run()))
    texts = ("question", "messages", "references", "response", "retrieved_contexts", "retrieved_context_ids", "qrels")
    assert {row[text] for row in rows for text in texts} == {None}
    assert {row["has_texts"] for row in rows} == {run.has_texts}
    records = jsonl_records(run, exchanges)
    assert {record["user_input"] for record in records} == {None}
    assert records[0].keys() == jsonl_records(sample_run())[0].keys()


def test_a_sample_whose_texts_are_missing_leaves_the_others_theirs():
    told = [stored_exchange for stored_exchange in sample_exchanges() if stored_exchange.exchange.sample.id != "q-2"]
    responses = {record["sample_id"]: record["response"] for record in jsonl_records(sample_run(), lambda: told)}
    assert responses["q-2"] is None
    assert responses["q-5"] == "You can return it within 30 days."


def test_texts_in_another_order_are_refused():
    with pytest.raises(ValueError, match="no sample matches the texts of support-chat: c-3, attempt 2"):
        render_jsonl(sample_run(), lambda: reversed(sample_exchanges()))


def test_a_score_that_was_computed_again_is_not_explained_by_the_old_one():
    run = sample_run()
    dataset = run.datasets[3]
    sample = dataset.samples[0]
    newer = replace(sample.attempts[0].scores["faithfulness"], value=0.5, reason="new", evidence=None)
    scores = {**sample.attempts[0].scores, "faithfulness": newer}
    attempts = (replace(sample.attempts[0], scores=scores), *sample.attempts[1:])
    dataset = replace(dataset, samples=(replace(sample, attempts=attempts), *dataset.samples[1:]))
    record = jsonl_records(replace(run, datasets=(*run.datasets[:3], dataset)))[17]
    assert record["scores"]["faithfulness"] == {
        "status": "scored", "value": 0.5, "reason": "new", "evidence": None, "repeats": [], "cause": None,
    }  # fmt: skip


@pytest.mark.parametrize(
    ("text", "cell"),
    [("=1+1", "'=1+1"), ("+49", "'+49"), ("-5", "'-5"), ("@SUM(A1)", "'@SUM(A1)"), ("\tx", "'\tx"), ("\r=1", "'\\r=1"),
     ("＝1", "'＝1"), ("a=1", "a=1"), ("x\x00\x1by", "x\\x00\\x1by")],
)  # fmt: skip
def test_no_text_is_a_formula(text, cell):
    assert csv_rows(run_full_of(text), lambda: exchanges_full_of(text))[0]["sample_id"] == cell


def test_negative_numbers_stay_numbers():
    run = sample_run()
    dataset = run.datasets[2]
    sample = replace(dataset.samples[0], scores={"chrf": replace(dataset.samples[0].scores["chrf"], value=-0.25)})
    rows = csv_rows(replace(run, datasets=(replace(dataset, samples=(sample,)),)), no_exchanges)
    assert rows[0]["value"] == "-0.25"


@given(text=ANY_TEXT)
def test_no_text_breaks_a_row(text):
    run = run_full_of(text)

    def exchanges():
        return exchanges_full_of(text)

    content = render_csv(run, exchanges)
    assert content.count(b"\r\n") - 1 == len(csv_rows(run, exchanges)) == 4
    assert content.splitlines()[0].decode().split(",") == list(COLUMNS)
    rows = csv_rows(run, exchanges)
    assert {row["attempt"] for row in rows} == {"1", "2"}
    assert not any(cell.startswith(("=", "+", "-", "@", "\t", "\r")) for row in rows for cell in row.values())
    assert jsonl_records(run, exchanges)[0]["response"] == text
    assert render_jsonl(run, exchanges).replace("\n", "").isprintable()
    assert parquet_rows(run, exchanges)[0]["response"] == text.encode("utf-8", "backslashreplace").decode()


def test_the_header_names_what_stands_below_it():
    asking = next(read_attempts(sample_run(), sample_exchanges))
    columns = identify(sample_run(), asking) | score_columns(None, None) | timing_columns(asking) | cause_column(None)
    assert list(columns) == list(COLUMNS)


def test_what_the_stages_of_a_retriever_took_stands_in_every_row_of_its_asking():
    run, keys = retrieval_run(), ("embed_ms", "retrieve_ms", "rerank_ms")
    rows = parquet_rows(run, retrieval_exchanges)
    by_asking = {(row["sample_id"], row["attempt"]): tuple(row[key] for key in keys) for row in rows}
    assert by_asking["q-1", 1] == (4.25, 12.0, 61.0)
    assert by_asking["q-4", 1] == (None, None, None)
    assert [by_asking["z-1", attempt] for attempt in (1, 2)] == [(None, 3.5, None), (None, 4.5, None)]
    records = jsonl_records(run, retrieval_exchanges)
    assert [tuple(record[key] for key in keys) for record in records] == list(by_asking.values())
    cells = [tuple(row[key] for key in keys) for row in csv_rows(run, retrieval_exchanges)]
    assert cells == [tuple("" if row[key] is None else str(row[key]) for key in keys) for row in rows]


def test_an_empty_table_has_its_columns():
    run = replace(sample_run(), datasets=())
    assert render_csv(run, no_exchanges).decode() == ",".join(COLUMNS) + "\r\n"
    assert pyarrow.parquet.read_schema(io.BytesIO(render_parquet(run, no_exchanges))).names[: len(COLUMNS)] == [
        *COLUMNS
    ]


def test_without_pyarrow_parquet_is_refused_before_anything_is_asked(monkeypatch, tmp_path):
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(MissingPackage, match=r"suffix \.parquet needs pyarrow.*pip install 'pyarrow>=15'"):
        reporter_for(tmp_path / "x.parquet")
    assert reporter_for(tmp_path / "x.csv").name == "csv"


def test_knowing_the_forms_imports_none_of_their_libraries():
    code = (
        "import sys; from evalspec.reports.base import REPORTERS; assert len(REPORTERS.names()) >= 8; "
        "print({'pyarrow', 'rich', 'pydantic', 'numpy', 'xml.dom'} & {*sys.modules})"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "set()"
