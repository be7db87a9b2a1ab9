"""Files in the shapes that other systems write: each is read, evaluated and, where there is a writer, written."""

import json
import shutil
import sys
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.ipc
import pyarrow.parquet as pq
import pytest
import yaml
from msgspec.structs import replace

from evalspec.base.errors import InvalidInput
from evalspec.cli.main import run
from evalspec.inputs.datasets.base import DATASETS, DatasetContent, Source
from evalspec.inputs.datasets.load import load_dataset
from evalspec.model import ExpectedCall, Message, Sample

LATER = sys.version_info >= (3, 13)
"""Loops of links and `**a` are no errors of pathlib then: they match nothing."""
FOREIGN = Path(__file__).parent / "foreign"
SHIP, RETURN = "How fast do orders ship?", "How long are returns free?"
DAYS, MONTH = ("within two working days",), ("30 days",)
P1, P2, P3 = "Orders ship within two working days.", "Returns are free for 30 days.", "Gift cards never expire."
FORMATS = {
    "azure.jsonl": "azure",
    "braintrust.csv": "braintrust",
    "braintrust.jsonl": "braintrust",
    "deepeval.csv": "deepeval",
    "deepeval-turns.csv": "deepeval",
    "deepeval-turns.json": "deepeval",
    "deepeval.json": "deepeval",
    "deepeval.jsonl": "deepeval",
    "hotpotqa.json": "hotpotqa",
    "langsmith-experiment.jsonl": "langsmith",
    "langsmith.csv": "langsmith",
    "langsmith.jsonl": "langsmith",
    "llamaindex-pairs.json": "llamaindex-pairs",
    "llamaindex.json": "llamaindex",
    "mteb": "beir",
    "mtrag.jsonl": "mtrag",
    "openai-evals-old.jsonl": "openai-evals",
    "openai-evals-run.jsonl": "openai-evals",
    "openai-evals.jsonl": "openai-evals",
    "plain-semicolon.csv": "csv",
    "plain.csv": "csv",
    "plain.tsv": "csv",
    "pretty.json": "jsonl",
    "pretty.jsonl": "jsonl",
    "promptfoo-parts/promptfooconfig.yaml": "promptfoo",
    "promptfoo-tests.json": "promptfoo",
    "promptfoo.csv": "promptfoo",
    "promptfoo.yaml": "promptfoo",
    "ragas-multi-turn.jsonl": "ragas",
    "ragas-old-testset.jsonl": "ragas",
    "ragas-old.json": "ragas",
    "ragas-testset.jsonl": "ragas",
    "ragas.csv": "ragas",
    "ragas.jsonl": "ragas",
    "ragbench.jsonl": "ragbench",
    "squad-rows.jsonl": "squad",
    "squad.json": "squad",
}
WITH_REPLIES = {
    "azure.jsonl": 2,
    "braintrust.csv": 2,
    "deepeval-turns.json": 1,
    "deepeval.csv": 1,
    "deepeval.json": 1,
    "deepeval.jsonl": 1,
    "langsmith-experiment.jsonl": 2,
    "openai-evals-run.jsonl": 2,
    "ragas-old.json": 2,
    "ragas.csv": 2,
    "ragas.jsonl": 2,
    "ragbench.jsonl": 1,
}
OTHER_QUESTIONS = ("hotpotqa.json", "mtrag.jsonl", "ragas-multi-turn.jsonl", "openai-evals-old.jsonl")
RETRIEVED = {
    "azure.jsonl": (f"{P1} {P3}",),
    "deepeval-turns.json": (P1,),
    "langsmith-experiment.jsonl": (P1,),
    "promptfoo-parts/promptfooconfig.yaml": (P1,),
    "promptfoo.yaml": (P1,),
    "ragas-old.json": (P1,),
    "ragas.csv": (P1, "Ada's gift cards never expire."),
    "ragas.jsonl": (P1, P3),
    "ragbench.jsonl": (P1, P3),
}
TRUTH = {
    "deepeval-turns.csv": (P1, P3),
    "deepeval-turns.json": (P1,),
    "deepeval.jsonl": (P1, P3),
    "deepeval.csv": (P1, P3),
    "deepeval.json": (P1,),
    "llamaindex.json": (P1,),
    "ragas-old-testset.jsonl": (P1,),
    "ragas-testset.jsonl": (P1,),
    "ragas.jsonl": (P1,),
    "squad-rows.jsonl": (P1,),
    "squad.json": (f"{P1} {P2}",),
}
WITHOUT_ANSWERS = ("deepeval-turns.csv", "deepeval-turns.json", "llamaindex-pairs.json", "mteb", "ragbench.jsonl")


def load(name, **options):
    data = load_dataset(Source(FOREIGN / name, name, **options))
    assert data.problems == ()
    return data


def manifest(path, metric, **dataset):
    spec = {"datasets": [{"name": "d", "path": str(path), "metrics": [metric], **dataset}], "ciGate": True}
    spec["thresholds"] = {metric: 0}
    head = {"apiVersion": "agentspec.io/v1", "kind": "AgentSpec", "metadata": {"name": "a"}}
    return json.dumps(head | {"spec": {"evaluation": spec}})


def test_every_file_is_listed():
    listed = {name.partition("/")[0] for name in FORMATS} | {"chat-log.jsonl"}
    assert listed == {path.name for path in FOREIGN.iterdir()}


@pytest.mark.parametrize("name", FORMATS)
def test_a_file_is_recognised_and_read(name):
    data = load(name, with_replies=True)
    first = data.samples[0]
    assert (data.format, len(data.replies)) == (FORMATS[name], WITH_REPLIES.get(name, 0))
    if name not in OTHER_QUESTIONS:
        assert first.question == SHIP
    if name in WITHOUT_ANSWERS:
        assert first.references == ()
    elif name not in OTHER_QUESTIONS:
        assert first.references[:1] == DAYS
    assert (first.retrieved_contexts, first.reference_contexts) == (RETRIEVED.get(name), TRUTH.get(name)) or (
        name in ("hotpotqa.json", "mtrag.jsonl")
    )
    path = FOREIGN / name
    head = path.read_bytes()[:65_536] if path.is_file() else b""
    claims = {one.name for one in DATASETS if one.recognises(path, head) and not one.is_generic} - {"jsonl"}
    assert claims == {FORMATS[name]} - {"jsonl", "csv"}


@pytest.mark.parametrize("name", FORMATS)
def test_a_file_is_evaluated(name, tmp_path, monkeypatch, capsys):
    """With its own replies where each sample has one, otherwise with recorded ones."""
    monkeypatch.chdir(tmp_path)
    data = load(name)
    metric = "Recall@5" if data.samples[0].qrels else "truncated_rate"
    if all(one.references for one in data.samples):
        metric = "rouge"
    Path("agent.yaml").write_text(manifest(FOREIGN / name, metric))
    replies = [
        {"id": one.id, "response": one.reference or "?", "retrieved_context_ids": list(one.qrels or ()), "latencyMs": 0}
        for one in data.samples
    ]
    Path("replies.jsonl").write_text("".join(json.dumps(reply) + "\n" for reply in replies))
    own = WITH_REPLIES.get(name) == len(data.samples)
    run(["evaluate", "agent.yaml", "--responses", "same" if own else "replies.jsonl", "--json"])
    report = json.loads(capsys.readouterr().out)
    (dataset,) = report["datasets"]
    assert dataset["answered"] == len(data.samples)
    if metric != "truncated_rate":
        assert dataset["metrics"][metric]["failed"] == 0


FULL = Sample("q1", "What?", ("a",), ("had",), ("truth",), {"d1": 1}, ("t",), {"k": "v", "n": {"deep": [1]}})
HELD = {
    "ragas": {"retrieved_contexts", "reference_contexts", "qrels", "metadata"},
    "deepeval": {"retrieved_contexts", "reference_contexts", "tags", "metadata"},
    "azure": {"retrieved_contexts", "metadata"},
    "openai-evals": {"retrieved_contexts", "reference_contexts", "tags", "metadata"},
    "langsmith": {"metadata"},
    "braintrust": {"tags", "metadata"},
    "llamaindex": {"reference_contexts", "metadata"},
    "promptfoo": {"retrieved_contexts", "tags", "metadata"},
    "csv": {"retrieved_contexts", "reference_contexts", "qrels", "tags", "metadata"},
}


@pytest.mark.parametrize(("name", "key"), [("deepeval", "input_parameters"), ("ragas", "args")])
def test_expected_calls_are_written_as_the_system_spells_them_and_read_again(name, key, tmp_path):
    book, pay = ExpectedCall("book", {"city": "Paris"}), ExpectedCall("pay")
    samples = [Sample("q1", "Book it.", ("ok",), expected_tools=(book, pay)), Sample("q2", "Hi", ("ok",))]
    target, path = DATASETS.find(name), tmp_path / "d.json"
    assert not target.list_losses(DatasetContent(samples[:1]))
    target.write(DatasetContent(samples), path)
    assert f'"{key}": {{"city": "Paris"}}' in path.read_text()
    assert [one.expected_tools for one in load_dataset(Source(path, path.name), name).samples] == [(book, pay), None]


@pytest.mark.parametrize("name", HELD)
def test_what_is_written_is_read_again_and_the_rest_is_listed(name, tmp_path):
    target = DATASETS.find(name)
    suffix = {"deepeval": ".json", "llamaindex": ".json", "promptfoo": ".yaml", "csv": ".csv"}.get(name, ".jsonl")
    path = tmp_path / f"d{suffix}"
    assert target.write(DatasetContent([FULL]), path) == (1, 0)
    (read,) = load_dataset(Source(path, path.name), name).samples
    for field in ("id", "user_input", "references", *HELD[name]):
        assert getattr(read, field) == getattr(FULL, field), field
    lost = {"retrieved_contexts", "reference_contexts", "qrels", "tags", "metadata"} - HELD[name]
    assert all(not getattr(read, field) for field in lost)
    assert len(target.list_losses(DatasetContent([FULL]))) == len(lost)
    several = Sample("q2", (Message("system", ""), Message("user", "And?")), ("a", "b"), answerable=False)
    losses = target.list_losses(DatasetContent([several]))
    assert "which questions can be answered (1 of 1 samples)" in losses
    target.write(DatasetContent([several]), path)
    assert load_dataset(Source(path, path.name), name).samples[0].question == "And?"


@pytest.mark.parametrize(
    ("name", "suffix"),
    [("ragas", ".json"), ("ragas", ".csv"), ("ragas", ".parquet"), ("deepeval", ".csv"), ("csv", ".tsv")],
)
def test_a_writer_follows_the_suffix(name, suffix, tmp_path):
    path = tmp_path / f"d{suffix}"
    flat = replace(FULL, metadata={"k": "v"})  # a CSV cannot hold numbers in metadata, and its writer refuses them
    DATASETS.find(name).write(DatasetContent([flat]), path)
    data = load_dataset(Source(path, path.name))
    (read,) = data.samples
    assert data.format == name
    assert (read.id, read.references, read.reference_contexts) == ("q1", ("a",), ("truth",))


def test_promptfoo_is_written_as_yaml_only(tmp_path):
    with pytest.raises(InvalidInput, match=r"written as YAML, not \.csv. write them to d\.yaml"):
        DATASETS.find("promptfoo").write(DatasetContent([FULL]), tmp_path / "d.csv")


def test_a_format_that_is_only_read_says_so(tmp_path, capsys):
    assert run(["convert", str(FOREIGN / "plain.csv"), str(tmp_path / "o"), "--to", "squad"]) == 2
    assert "evalspec reads squad, but does not write it. write autorag, azure" in capsys.readouterr().err


ROWS: dict[str, list[Any]] = {
    "question": [SHIP, RETURN],
    "contexts": [[P1], [P2]],
    "ground_truth": [DAYS[0], MONTH[0]],
    "score": [1.0, None],
}


def write_arrow(path):
    table = pa.table(ROWS)
    path.parent.mkdir(parents=True, exist_ok=True)
    with pa.OSFile(str(path), "wb") as sink, pyarrow.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)


def test_tables_of_every_kind_say_the_same(tmp_path):
    pq.write_table(pa.table(ROWS), tmp_path / "d.parquet")
    write_arrow(tmp_path / "d.arrow")
    write_arrow(tmp_path / "saved" / "data-00000-of-00001.arrow")
    (tmp_path / "saved" / "dataset_info.json").write_text("{}")
    write_arrow(tmp_path / "dict" / "train" / "data-00000-of-00001.arrow")
    write_arrow(tmp_path / "dict" / "test" / "data-00000-of-00001.arrow")
    (tmp_path / "dict" / "dataset_dict.json").write_text('{"splits": ["train", "test"]}')
    (tmp_path / "hub" / "data").mkdir(parents=True)
    half = pa.table({key: values[:1] for key, values in ROWS.items()})
    rest = pa.table({key: values[1:] for key, values in ROWS.items()}, half.schema)
    pq.write_table(half, tmp_path / "hub" / "data" / "test-00000-of-00002.parquet")
    pq.write_table(rest, tmp_path / "hub" / "data" / "test-00001-of-00002.parquet")
    found = {}
    for name in ("d.parquet", "d.arrow", "saved", "dict", "hub"):
        data = load_dataset(Source(tmp_path / name, name))
        assert (data.problems, data.format) == ((), "ragas"), name
        found[name] = [(one.id, one.question, one.references, one.retrieved_contexts) for one in data.samples]
        told = [warning.message for warning in data.warnings if "splits" in warning.message]
        assert told == (["the folder has the splits test, train; evalspec reads test"] if name == "dict" else [])
    assert len(set(map(str, found.values()))) == 1
    assert found["dict"][0][1:] == (SHIP, DAYS, (P1,))


def test_fields_name_any_column(tmp_path, monkeypatch, capsys):
    fields = {"input": "turn.said", "expected": "$.gold.say", "context": "$.docs[*].body.t"}
    (sample,) = load("chat-log.jsonl", fields=fields).samples
    assert (sample.user_input, sample.references, sample.retrieved_contexts) == (SHIP, DAYS, (P1, P3))
    monkeypatch.chdir(tmp_path)
    Path("agent.yaml").write_text(manifest(FOREIGN / "chat-log.jsonl", "string_match", fields=fields))
    Path("r.jsonl").write_text(json.dumps({"id": sample.id, "response": DAYS[0]}) + "\n")
    assert run(["evaluate", "agent.yaml", "--responses", "r.jsonl"]) == 0
    Path("agent.yaml").write_text(manifest(FOREIGN / "plain.tsv", "truncated_rate", fields={"response": "answer"}))
    capsys.readouterr()
    run(["evaluate", "agent.yaml", "--responses", "same", "--json"])
    (dataset,) = json.loads(capsys.readouterr().out)["datasets"]
    assert dataset["answered"] == 2


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"inputs": "a"}, "unknown field 'inputs'. did you mean 'input'?"),
        ({"input": "$.["}, "fields.input: '$.[' is not a JSONPath query"),
        (
            {"input": "said"},
            "there is no column 'said'. the columns are turn.said, gold.say, docs; did you mean 'turn.said'?",
        ),
    ],
)
def test_bad_fields_are_one_problem(fields, message):
    data = load_dataset(Source(FOREIGN / "chat-log.jsonl", "chat-log.jsonl", fields=fields))
    (problem,) = data.problems
    assert message in problem.render()


@pytest.mark.parametrize(
    ("name", "text", "problems"),
    [
        ("d.jsonl", '{"user_inputs": "q", "references": "a"}\n{"b": 1}\n', ["the nearest is ragas"]),
        ("d.jsonl", '{"queries": []}\n', ["queries: it is empty"]),
        ("d.txt", "How long is the trial?\nWho pays?\n", ["d.txt:1: the file has no records: it is neither JSON nor"]),
        ("d.yaml", "name: shop, of lamps\nkind: x\n", ["d.yaml:1: the file has no records"]),
        ("d.json", '{\n "dataset_name": "x",\n "queries": []\n}\n', ["d.json:3: queries: it is empty"]),
        ("d.json", "[]", ["the list is empty"]),
        ("d.csv", "ticket,solution\na,b\nc,d\n", ["d.csv:2: the record has no question. looked for input, question"]),
        ("d.csv", "question,answer\na,b,c\nd\n", ["d.csv:2: the row has 3 cells", "d.csv:3: the row has 1 cells"]),
        ("d.csv", "question,question\na,b\n", ["d.csv:1: question: duplicate column"]),
        ("d.csv", 'question,answer\n"a,b\n', ["d.csv:2: not valid CSV"]),
        ("d.csv", ",question,answer\n0,a,b\n", []),
        ("d.csv", "question,,\na,b,c\n", ["d.csv:1: (no name): duplicate column"]),
        ("d.json", '{"user_input": {"0": "a", "1": "b"}}', ["write one object per sample; pandas does with to_json("]),
        (
            "d.jsonl",
            '{"input": "q", "expected": "a", "retrieved_contexts": ["c"], "response": "r", "topic": "x"}\n',
            [],
        ),
        (
            "d.jsonl",
            '{"input": "q", "expected": "a", "retrieved_contexts": ["c"]}\n',
            ["retrieved_contexts: unknown key 'retrieved_contexts'. write what the agent had under context"],
        ),
    ],
)
def test_what_is_wrong_is_said_once(name, text, problems, tmp_path):
    (tmp_path / name).write_text(text)
    found = load_dataset(Source(tmp_path / name, name)).problems
    assert len(found) == len(problems)
    assert all(part in problem.render() for part, problem in zip(problems, found, strict=True))


def test_notices_say_what_is_not_read_and_what_is_doubtful(tmp_path):
    assert [warning.render() for warning in load("plain.tsv").warnings] == [
        "plain.tsv:2: `answer` is read as the right answer. set `fields: {expected: answer}` to confirm that, "
        "or `fields: {response: answer}` if it is the system's reply"
    ]
    (kept,) = load("plain.csv").remarks
    assert kept.message == "columns kept as metadata only: category"
    (tmp_path / "d.csv").write_text(",question,expected\n0,a,b\n")
    (index,) = load_dataset(Source(tmp_path / "d.csv", "d.csv")).samples
    assert index.metadata == {"index": "0"}
    (tmp_path / "ids.csv").write_text('question,relevant\na,"d1, d2"\nb,d1;d2\nc,d3|d4\n')
    data = load_dataset(Source(tmp_path / "ids.csv", "ids.csv"))
    assert [list(sample.qrels) for sample in data.samples] == [["d1", "d2"], ["d1;d2"], ["d3|d4"]]
    assert [one.line for one in data.warnings if "read as part of one id" in one.message] == [3]
    (replies,) = load("ragas.jsonl").warnings
    assert "2 recorded replies" in replies.message
    messages = [warning.message for warning in load("promptfoo.yaml").warnings]
    assert messages[-1] == "asserts without a counterpart, which are not checked: llm-rubric (1), javascript (2)"


def test_a_golden_without_turns_is_named_and_without_any_other_refused(tmp_path):
    (skipped, outcome) = load("deepeval-turns.json", with_replies=True).warnings
    assert skipped.render().startswith("deepeval-turns.json:22: skipped goldens with a scenario but no turns, because")
    assert "`expected_outcome` describes a conversation, so it is metadata" in outcome.message
    answered = load("deepeval-turns.csv", fields={"expected": "expected_outcome"})
    assert (answered.samples[0].references, answered.warnings) == (("The customer knows the shipping time.",), ())
    (tmp_path / "d.jsonl").write_text('{"scenario": "a", "turns": null, "expected_outcome": "b"}\n')
    (problem,) = load_dataset(Source(tmp_path / "d.jsonl", "d.jsonl")).problems
    assert problem.render().startswith("d.jsonl:1: only goldens with a scenario but no turns")
    (tmp_path / "d.jsonl").write_text(
        '{"scenario": "a", "turns": [{"role": "assistant", "content": "b"}], "context": "c|d"}\n'
    )
    (problem,) = load_dataset(Source(tmp_path / "d.jsonl", "d.jsonl"), "deepeval").problems
    assert "no turn of the conversation is the user's" in problem.message


def test_scenarios_defaults_and_files_of_promptfoo_are_the_tests_they_spell(tmp_path):
    shutil.copytree(FOREIGN / "promptfoo-parts", tmp_path, dirs_exist_ok=True)
    config = tmp_path / "promptfooconfig.yaml"
    data = load_dataset(Source(config, "p.yaml"))
    assert [(one.question, one.reference, one.line) for one in data.samples] == [
        (SHIP, DAYS[0], 6),
        (RETURN, MONTH[0], 12),
        ("Who answers the phone?", "Ada", 13),
        ("How long can I return a lamp?", "30 days", 15),
        ("How long can I return a bulb?", "14 days", 15),
    ]
    assert all(one.metadata["team"] == "shop" for one in data.samples)
    assert sorted(path.name for path in data.files) == [
        "defaults.yaml", "more.csv", "returns.yaml", "shipping-answer.txt", "shipping.md", "vars.json"
    ]  # fmt: skip
    (tmp_path / "docs" / "shipping.md").write_text("Orders ship tomorrow.")
    changed = load_dataset(Source(config, "p.yaml"))
    assert changed.sha256 != data.sha256
    as_json = tmp_path / "config.json"
    as_json.write_text(
        json.dumps({"prompts": ["{{q}}"], "tests": "file://tests/more.csv", "defaultTest": {"vars": {"context": P1}}})
    )
    (sample,) = load_dataset(Source(as_json, "config.json")).samples
    assert (sample.reference, sample.retrieved_contexts) == ("Ada", (P1,))


@pytest.mark.parametrize(
    ("named", "says"),
    [
        ("file://../secret.txt", "'../secret.txt' is outside the folder of the tests. copy the file"),
        ("file:///etc/hostname", "'/etc/hostname' is outside the folder"),
        ("file://link.txt", "'link.txt' leads out of the folder"),
        ("file://more", "'more/link.csv' leads out of the folder"),
        ("file://m*e", "'m*e/link.csv' leads out of the folder"),
        ("file://loop.txt", "there is no file 'file://loop.txt'" if LATER else "'loop.txt' cannot be read"),
        ("file://a\0b.txt", "cannot be read"),
        pytest.param("file://" + "x" * 5000, "cannot be read", id="a long name"),
        ("file://**a", "there is no file" if LATER else "cannot be read"),
        ("file://make.py", "'file://make.py' is code, which evalspec does not run"),
        ("file://make.js:build", "is code, which"),
        ("file://none-*.txt", "there is no file 'file://none-*.txt'"),
        ("file://binary.txt", "not UTF-8 text"),
    ],
)
def test_promptfoo_reads_no_file_elsewhere_and_runs_none(named, says, tmp_path):
    folder = tmp_path / "evals"
    folder.mkdir()
    (tmp_path / "secret.txt").write_text("hush")
    (folder / "link.txt").symlink_to(tmp_path / "secret.txt")
    (folder / "loop.txt").symlink_to(folder / "loop.txt")
    (folder / "more").mkdir()
    (folder / "more" / "link.csv").symlink_to(tmp_path / "secret.txt")
    (folder / "binary.txt").write_bytes(b"\xff\xfe\x00")
    for key in ("tests", "vars", "defaultTest"):
        document = {
            "prompts": ["x"],
            "tests": [{"vars": {"question": "q", "context": named if key == "vars" else "c"}}],
        }
        document |= {} if key == "vars" else {key: named}
        (folder / "promptfooconfig.yaml").write_text(yaml.safe_dump(document))
        found = load_dataset(Source(folder / "promptfooconfig.yaml", "p.yaml")).problems
        assert found and all("hush" not in problem.render() for problem in found)
        assert says in found[0].render() or named.endswith("binary.txt")
        assert found[0].render().startswith("p.yaml:") or named.endswith("binary.txt")


def test_the_id_of_a_record_does_not_depend_on_the_reply(tmp_path):
    lines = [{"user_input": SHIP, "reference": "a", "response": reply, "retrieved_contexts": [reply]} for reply in "xy"]
    ids = []
    for line in lines:
        (tmp_path / "d.jsonl").write_text(json.dumps(line) + "\n")
        ids += [sample.id for sample in load_dataset(Source(tmp_path / "d.jsonl", "d")).samples]
    assert ids[0] == ids[1]


def test_datasets_without_replies_or_with_the_same_ids_are_refused(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    Path("agent.yaml").write_text(manifest(FOREIGN / "openai-evals.jsonl", "rouge"))
    assert run(["evaluate", "agent.yaml", "--responses", "same"]) == 2
    assert "dataset 'd' has no recorded replies. name a file" in capsys.readouterr().err


def test_a_table_that_cannot_hold_a_sample_is_not_written(tmp_path):
    content = DatasetContent([Sample("1", "q", metadata={"level": 3})])
    with pytest.raises(InvalidInput, match=r"\.csv cannot hold the sample '1' unchanged: .* would differ"):
        DATASETS.find("ragas").write(content, tmp_path / "d.csv")


UNRAG = {
    "version": "1",
    "id": "shop-terms",
    "description": "what customers ask",
    "defaults": {"scopePrefix": "eval:shop:"},
    "documents": [{"sourceId": "eval:shop:1", "loaderRef": "notion:1"}],
    "queries": [{"id": "q", "query": SHIP, "relevant": {"sourceIds": ["eval:shop:1"]}}],
}


def test_what_a_file_says_about_itself_is_in_the_report_and_a_missing_loader_is_an_error(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    Path("d.json").write_text(json.dumps(UNRAG))
    Path("r.jsonl").write_text('{"id": "q", "retrieved_context_ids": ["eval:shop:1"]}\n')
    text = manifest("d.json", "Recall@5")
    Path("agent.yaml").write_text(text)
    run(["evaluate", "agent.yaml", "--responses", "r.jsonl", "-o", "report.json"])
    assert "shop-terms: what customers ask" in capsys.readouterr().out
    (dataset,) = json.loads(Path("report.json").read_text())["datasets"]
    assert (dataset["sourceId"], dataset["description"]) == ("shop-terms", "what customers ask")
    spec = json.loads(text)
    spec["spec"]["evaluation"] |= {"retrievers": {"words": {"builtin": "bm25"}}}
    spec["spec"]["evaluation"]["datasets"][0]["retriever"] = "words"
    Path("agent.yaml").write_text(json.dumps(spec))
    assert run(["validate", "agent.yaml"]) == 2
    assert "only a loader can read the loaderRef of 1 documents: eval:shop:1" in capsys.readouterr().out


def test_the_case_and_blanks_of_a_column_do_not_matter_in_tables(tmp_path):
    (tmp_path / "d.csv").write_text("Question, Expected Answer ,Prompt\na,b,c\n")
    pq.write_table(pa.table({"Question": ["a"], "EXPECTED-ANSWER": ["b"], "Prompt": ["c"]}), tmp_path / "d.parquet")
    for name in ("d.csv", "d.parquet"):
        data = load_dataset(Source(tmp_path / name, name))
        (sample,) = data.samples
        assert (sample.user_input, sample.references, sample.metadata) == ("a", ("b",), {"Prompt": "c"})
        assert ([note.message for note in data.remarks], data.warnings) == (
            ["columns kept as metadata only: Prompt"],
            (),
        )
    (tmp_path / "exact.csv").write_text("Question,question,expected\nx,a,b\n")
    (sample,) = load_dataset(Source(tmp_path / "exact.csv", "exact.csv")).samples
    assert (sample.user_input, sample.metadata) == ("a", {"Question": "x"})
    (tmp_path / "two.csv").write_text("Question,QUESTION,expected\nx,a,b\n")
    (problem,) = load_dataset(Source(tmp_path / "two.csv", "two.csv")).problems
    assert problem.message == "the columns 'QUESTION' and 'Question' both mean question"
    (tmp_path / "d.jsonl").write_text('{"Question": "a", "expected": "b"}\n')
    assert load_dataset(Source(tmp_path / "d.jsonl", "d.jsonl")).problems
