"""What comes from outside is refused in one clear line, and is never called a bug of ours."""

import json
import signal
from importlib.metadata import EntryPoint
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from msgspec import Struct

from evalspec.base import registry
from evalspec.base.errors import InvalidInput
from evalspec.base.registry import Registry
from evalspec.inputs.datasets.base import DATASETS, CorpusForm, DatasetFormat, ForeignReport, SearchPreset
from evalspec.reports.base import REPORTERS, Reporter
from evalspec.targets.retrievers.opening import RETRIEVERS
from stored_log import edit_description, seal_inputs, seal_line


@pytest.fixture
def stored(project, agent):
    """A project with one finished run and a baseline of it."""
    project.api["url"] = agent.url
    project.samples(6, metrics=("string_match", "latency_p95"), tags=["a"])
    project.evaluation |= {"thresholds": {"string_match": 0.5}}
    project.run_id = project.evaluate("--json").document["runId"]
    assert project("runs", "promote", "latest", "--as", "main").code == 0
    project.run = project.folder / ".evalspec" / "runs" / project.run_id
    return project


def refused(done, says, codes=(2, 3)):
    assert done.code in codes, done.err
    assert says in done.err
    assert "bug" not in done.err
    assert "Traceback" not in done.err


def change(path, *steps, value):
    document = json.loads(path.read_text())
    inner = document
    for step in steps[:-1]:
        inner = inner[step]
    inner[steps[-1]] = value
    path.write_text(json.dumps(document) + "\n")


@pytest.mark.parametrize(
    ("path", "field"),
    [("$file:a\0b.jsonl", "datasets[0].path"), ("a\0b.jsonl", "datasets[0].path")],
)
def test_nul_in_a_path(project, path, field):
    project.samples(1)
    project.evaluation["datasets"][0]["path"] = path
    refused(project.evaluate(), f"spec.evaluation.{field}: this text contains a NUL character")


@pytest.mark.parametrize("option", ["--dataset", "--url", "--output"])
def test_an_option_is_no_value_of_the_one_before(project, option):
    """As where a script has an empty variable; the result is still one JSON document."""
    done = project("evaluate", "agent.yaml", option, "--json")
    refused(done, f"Option '{option}' requires an argument")
    assert done.document["exitCode"] == done.code == 2


def test_a_link_to_itself(project):
    project.samples(1)
    (project.folder / "round").symlink_to("round")
    project.evaluation["datasets"][0]["path"] = "round"
    refused(project.evaluate(), "round: cannot be read: Too many levels of symbolic links")
    project.evaluation["datasets"][0]["path"] = "qa.jsonl"
    project.api = {"url": "$file:round"}
    refused(project.evaluate(), "$file:round cannot be read: Too many levels of symbolic links")


@pytest.mark.parametrize(
    "command",
    ["compare latest {}", "runs show {}", "report {}", "plan --baseline {}", "convert {} x --to trec", "score {} {}",
     "convert qa.jsonl {} --to trec", "remap {} {} {}", "evaluate --resume {}", "rescore {} agent.yaml"],
)  # fmt: skip
def test_a_name_too_long_for_a_file(stored, command):
    refused(stored(*command.replace("{}", "x" * 300).split()), "File name too long. check the path", codes=(2,))


def test_a_key_twice_in_json_that_is_malformed_further_on(project):
    text = '{"version": "1", "queries": [{"id": "q", "id": "b" } "query"], "queries": ['
    (project.folder / "u.json").write_text(text)
    refused(project("convert", "u.json", "o.jsonl", "--from", "unrag", "--to", "jsonl"), "duplicate key 'id'")


def test_names_and_texts_of_parquet_that_are_not_utf8(project):
    row = {"qid": ["1"], "query": ["quest"], "retrieval_gt": [["d"]], "generation_gt": [["a"]], "naeme": ["x"]}
    for good, bad in ((b"naeme", b"na\xffme"), (b"quest", b"qu\xffst")):
        pq.write_table(pa.table(row), project.folder / "qa.parquet", compression="none", use_dictionary=False)
        file = project.folder / "qa.parquet"
        file.write_bytes(file.read_bytes().replace(good, bad))
        refused(project("convert", "qa.parquet", "o.jsonl", "--to", "jsonl", "--lossy"), "is not UTF-8 text")


@pytest.mark.parametrize(
    ("key", "steps", "value", "says"),
    [
        ("fingerprint", ("agent",), [], "run.json: fingerprint: Expected `object"),
        ("fingerprint", ("selection", "tags"), 5, "run.json: fingerprint: Expected `array"),
        ("fingerprint", ("datasets",), {"qa": 1}, "run.json: fingerprint: Expected `array"),
        ("outline", ("datasets", 0, "metrics", 0, "statistic"), "p17", "one of mean, min, p50"),
        ("outline", ("datasets", 0, "thresholds", 0, "metric"), "tone", "a threshold on 'tone', which is not computed"),
    ],
)
@pytest.mark.parametrize("command", ["report", "compare", "rescore", "show"])
def test_a_run_of_another_shape(stored, key, steps, value, says, command):
    document = json.loads((stored.run / "run.json").read_text())
    inner = document[key]
    for step in steps[:-1]:
        inner = inner[step]
    inner[steps[-1]] = value
    edit_description(stored.run, **{key: document[key]})
    more = {"report": (), "compare": ("evals/baselines/main.json",), "rescore": ("agent.yaml",), "show": ()}[command]
    refused(stored(*(("runs", "show") if command == "show" else (command,)), stored.run_id, *more), says)


@pytest.mark.parametrize(
    ("field", "value"),
    [("dataset", "another"), ("dataset", {}), ("metadata", [1]), ("tags", [{}]), ("qrels", {"d": "x"})],
)
@pytest.mark.parametrize("sealed", [True, False])
def test_damaged_samples_of_a_run(stored, sealed, field, value):
    path = stored.run / "inputs.jsonl"
    head, _, rest = path.read_text().partition("\n")
    record = json.loads(head)
    (record if field == "dataset" else record["sample"])[field] = value
    line = json.dumps(record)
    path.write_text((seal_line(line, 1) if sealed else line) + "\n" + rest)
    seal_inputs(stored.run)
    refused(stored("report", stored.run_id), "inputs.jsonl:1: ")


@pytest.mark.parametrize(
    ("name", "said"), [("p17", "one of mean, min, p50"), ("", "one of mean"), (5, "expected text")]
)
def test_an_unknown_statistic_in_a_baseline(stored, name, said):
    baseline = stored.folder / "evals" / "baselines" / "main.json"
    change(baseline, "datasets", 0, "metrics", "latency_p95", "statistic", value=name)
    refused(stored("compare", str(baseline), "latest"), said)


def test_a_damaged_report(stored):
    assert stored("report", "-o", "r.json").code == 0
    change(stored.folder / "r.json", "fingerprint", "agent", value="bot")
    refused(stored("compare", "r.json", "latest"), "r.json: fingerprint.agent: expected an object")


def test_a_system_without_sighup(project, agent, monkeypatch):
    monkeypatch.delattr(signal, "SIGHUP")
    project.api["url"] = agent.url
    project.samples(1)
    assert project.evaluate().code == 0


def explode(*_arguments):
    raise ZeroDivisionError("no luck")


def plugged(monkeypatch, registry_, name, thing):
    """Register a thing as the entry point `acme` of another package would."""
    registry_.names()
    for attribute in ("_things", "_names", "_plugins"):
        monkeypatch.setattr(registry_, attribute, dict(getattr(registry_, attribute)))
    monkeypatch.setattr(registry_, "_loading", f"entry point acme of group {registry_.group}")
    registry_.add(name, thing)
    registry_._loading = ""


def test_a_plugin_that_raises_when_it_is_loaded_is_named(monkeypatch):
    point = EntryPoint("acme", "tests.cli.test_outside:explode", "evalspec.tests")
    monkeypatch.setattr(EntryPoint, "load", lambda _self: exit)
    monkeypatch.setattr(registry, "entry_points", lambda **_group: [point])
    with pytest.raises(InvalidInput, match=r"entry point acme of group evalspec\.tests: plugin failed: SystemExit"):
        Registry("thing", "evalspec.tests").names()


@pytest.mark.parametrize("part", ["read", "recognises", "list_losses", "write"])
def test_a_dataset_format_that_raises_is_named(project, monkeypatch, part):
    parts = {
        "read": lambda _source, _notes: iter(()),
        "recognises": lambda _path, _head: part == "read",
        "list_losses": lambda _content: [],
        "write": explode,
    }
    plugged(monkeypatch, DATASETS, "acme", DatasetFormat("acme", "", **(parts | {part: explode})))
    project.samples(1)
    done = project("convert", "qa.jsonl", "out", "--to", "acme")
    refused(
        done, "entry point acme of group evalspec.datasets: dataset format 'acme' failed: ZeroDivisionError: no luck"
    )


@pytest.mark.parametrize("part", ["corpus", "refresh_metadata", "read_judgements", "report", "preset"])
def test_a_part_of_a_dataset_format_that_raises_is_named(project, monkeypatch, part):
    parts: dict[str, Any] = {
        "corpus": CorpusForm((), (".acme",), explode, explode),
        "refresh_metadata": explode,
        "read_judgements": explode,
        "report": ForeignReport("ACME report", lambda document: "acme" in document, Struct, explode),
        "preset": SearchPreset({"path": "/", "request": {}, "response": {"ids": 1}}),
    }
    acme = DatasetFormat(
        "acme", "", explode, lambda path, _head: path.name == "acme", explode, explode, **{part: parts[part]}
    )
    plugged(monkeypatch, DATASETS, "acme", acme)
    project.dataset("qa", [{"id": "s1", "relevant": ["d1"]}])
    (project.folder / "acme").mkdir()
    for name in ("old.acme", "old.jsonl"):
        (project.folder / name).write_text('{"_id": "d1", "text": "Pay at once."}\n')
    (project.folder / "report.json").write_text('{"acme": 1}')
    (project.folder / "run.txt").write_text("s1 Q0 d1 1 1.0 tag\n")
    project.evaluation["retrievers"] = {"mine": {"http": {"url": "http://127.0.0.1:9", "search": {"preset": "acme"}}}}
    commands = {
        "corpus": ("remap", "old.acme", "old.jsonl", "qa.jsonl", "-o", "new.jsonl"),
        "refresh_metadata": ("remap", "old.jsonl", "old.jsonl", "qa.jsonl", "-o", "new.jsonl"),
        "read_judgements": ("score", "acme", "run.txt", "-m", "RR"),
        "report": ("compare", "report.json", "report.json"),
        "preset": ("plan", str(project.write())),
    }
    refused(project(*commands[part]), "entry point acme of group evalspec.datasets: dataset format 'acme' failed: ")


def test_a_report_form_that_raises_is_named(stored, monkeypatch):
    plugged(monkeypatch, REPORTERS, "acme", Reporter("acme", (".acme",), explode))
    refused(stored("report", "-o", "r.acme"), "reporter 'acme' failed: ZeroDivisionError: no luck")


class ExplodingRetriever:
    async def search(self, _request):
        explode()


@pytest.mark.parametrize("factory", [explode, lambda _options, _vectors: ExplodingRetriever()], ids=["open", "search"])
def test_a_retriever_that_raises_is_named(project, monkeypatch, factory):
    plugged(monkeypatch, RETRIEVERS, "acme", factory)
    project.evaluation["retrievers"] = {"mine": {"builtin": "acme"}}
    project.dataset("qa", [{"id": "s1", "relevant": ["d1"]}], metrics=["Recall@5"], retriever="mine")
    done = project.evaluate("--json")
    refused(done, "acme", codes=(1, 2, 3))
    assert "ZeroDivisionError: no luck" in done.out + done.err


BLANK = [
    {"id": " ", "relevant": {" ": 1, "d1": 1}},
    {"id": "b", "relevant": {"d1": 0}},
    {"id": "\u00a0", "relevant": ["\u2003"]},
    {"id": "e", "input": " ", "relevant": ["d1"]},
    {"id": "f"},
]


@pytest.mark.parametrize("lines", [BLANK, *([line] for line in BLANK)], ids=["all", *"12345"])
@pytest.mark.parametrize("target", ["jsonl", "trec", "beir", "unrag", "mixpeek", "autorag", "triples"])
def test_what_is_written_is_read_again(project, target, lines):
    project.dataset("blank", lines)
    name = f"out.{'jsonl' if target == 'jsonl' else 'yaml' if target == 'triples' else 'json'}"
    name = "out" if target in ("trec", "beir", "autorag") else name
    done = project("convert", "blank.jsonl", name, "--to", target, "--lossy")
    if done.code:
        refused(done, "the format can hold none of the samples", codes=(2,))
        assert not (project.folder / name).exists()
    else:
        assert project("convert", name, "back.jsonl", "--to", "jsonl", "--lossy", "--from", target).code == 0
