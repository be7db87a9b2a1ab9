"""`evalspec gold stats` and `calibrate`, and a gold set in the reports of its runs."""

import json
import shutil
from pathlib import Path

import jsonschema
import pytest
import yaml

from evalspec.curation.gold.protocol import retire
from evalspec.reports.json_report import report_json_schema
from evalspec.verdict.wording import DEMONSTRATION
from reporters.sample_curation import GOLDEN, render_sample, sample_curation


@pytest.fixture
def command(curated, project):
    """The command line beside a gold set with 30 triples, of which cleo flags the first twelve."""
    config = yaml.safe_load((curated.root / "set.yaml").read_text())
    rules = {"newcomer": 0, "common": 25}
    (curated.root / "set.yaml").write_text(yaml.safe_dump(config | {"demonstration": True, "rules": rules}))
    for number in range(30):
        mode = {} if number == 29 else {"failure_mode": "numeric"}
        curated.add(f"t{number:02}", domain="it" if number % 2 else "health", difficulty="hard", **mode)
        at = f"2026-03-{number + 1:02}"
        curated.say(f"t{number:02}", at, ben="confirm", cleo="overstated" if number < 12 else "confirm")
    return project


def test_golden():
    text = render_sample()
    assert text == GOLDEN.read_text(encoding="utf-8")
    assert max(map(len, text.splitlines())) <= 80


def test_the_terminal_and_the_document_say_the_same(command):
    told = command("gold", "stats")
    assert told.code == 0
    assert DEMONSTRATION in told.out
    assert "alarm: 48 % of cleo's reviews are flags, against 0 % of the team's, after 25" in told.out
    found = command("gold", "stats", "--json").document
    schema = report_json_schema()
    own = {**schema, "$ref": "#/$defs/Curation"}
    jsonschema.validate({key: value for key, value in found.items() if key not in ("schemaVersion", "exitCode")}, own)
    assert (found["demonstration"], found["states"]) == (True, {"accepted": 18, "disputed": 12})
    measures = {one["measure"]: one for one in found["agreement"]}
    assert measures["raw agreement"]["value"] == pytest.approx(0.6)
    assert measures["Cohen's kappa"]["unknown"].startswith("ben always says confirm")
    (alarm,) = next(one["alarms"] for one in found["flagRates"] if one["person"] == "cleo")
    assert alarm["threshold"] == pytest.approx(0.01 / (4 * 2 * 2) / 2)  # four people, two roles, two tests, first look


def test_a_small_set_fits_a_terminal_and_says_only_what_is_known(project):
    project(
        "gold", "init", "gold/help", *(part for who in ("ada-invented", "ben-invented") for part in ("--person", who))
    )
    add = ("--question", "Q?", "--block", "b", "--answer", "A", "--source", "public", "--as", "ada-invented")
    project("gold", "add", "x", *add)
    project("gold", "review", "x", "overstated", "--as", "ben-invented")
    lines = [line.strip() for line in project("gold", "stats").out.splitlines()]
    assert "ben-invented      1/1  100 %  3 – 100 %      newcomer" in lines, lines
    assert "newcomer: the first 50 reviews of a person raise no alarm" in lines
    assert "open: 1" in lines and "Coverage" in lines
    assert not any("latest 50" in line for line in lines)


def test_a_calibration_ends_the_alarm_and_is_recorded(command):
    done = command("gold", "calibrate", "cleo", "--as", "ada", "--note", "Rounding is fine.", "--json").document
    (path,) = Path("gold/help/calibrations").iterdir()
    recorded = yaml.safe_load(path.read_text())
    assert recorded == {key: done[key] for key in recorded}
    assert (recorded["person"], recorded["reviewed"], recorded["note"]) == ("cleo", 30, "Rounding is fine.")
    again = command("gold", "stats", "--json").document
    cleo = next(one for one in again["flagRates"] if one["person"] == "cleo")
    assert (cleo["alarms"], cleo["calibrations"], cleo["flagged"]) == ([], 1, 12)
    again = command("gold", "calibrate", "cleo", "--as", "ben")
    assert again.err.endswith(": the baseline of cleo restarts after 30 blind reviews and 0 reviewed triples\n")
    assert {one.name.partition("-")[0] for one in path.parent.iterdir()} == {"1", "2"}
    unknown = command("gold", "calibrate", "cloe", "--as", "ada")
    assert (unknown.code, "'cloe' is not one of the people" in unknown.err) == (2, True)
    assert command("gold", "lint").code == 0
    path.write_text(path.read_text().replace("Rounding", "Writing"))
    refused = command("gold", "lint")
    assert (refused.code, "was edited after it was written" in refused.err) == (2, True)


@pytest.fixture
def evaluated(command, agent):
    """The set as a dataset, answered by an agent."""
    agent.reply = {"response": "14 days"}
    command.api |= {"url": agent.url, "chatEndpoint": {"path": "/", "maxRetries": 0}}
    command.evaluation["datasets"] = [{"name": "rfp", "path": "$file:gold/help", "metrics": ["string_match"]}]
    return command


FILES = ("r.json", "r.md", "r.html", "r.junit.xml", "r.sarif")


def test_every_form_of_report_says_demonstration(evaluated):
    told = evaluated.evaluate(*(part for name in FILES for part in ("-o", name)))
    texts = [told.out, Path("r.md").read_text()]
    assert f'<property name="demonstration" value="rfp: {DEMONSTRATION}"/>' in Path("r.junit.xml").read_text()
    (run,) = json.loads(Path("r.sarif").read_text())["runs"]
    notes = [one["message"]["text"] for one in run["invocations"][0]["toolExecutionNotifications"]]
    assert f"rfp: {DEMONSTRATION}" in notes
    assert all(DEMONSTRATION in text for text in texts), told.err
    assert all("gold set: 18 of 30 triples accepted" in text and "1 alarm" in text for text in texts)
    assert not any("Quality tracker" in text or "Flags by" in text for text in texts)
    assert Path("r.html").read_text().count(DEMONSTRATION) == 2  # the dataset, the set
    (dataset,) = json.loads(Path("r.json").read_text())["datasets"]
    stats = evaluated("gold", "stats", "--json").document
    assert dataset["gold"] == {key: value for key, value in stats.items() if key not in ("schemaVersion", "exitCode")}
    assert stats["coverage"]["unplaced"] == {"failure_mode": 1}
    shutil.rmtree("gold")
    told = evaluated("report", "latest", "-o", "again.json")
    assert DEMONSTRATION in told.out
    assert json.loads(Path("again.json").read_text())["datasets"][0]["gold"] == dataset["gold"]


def test_notes_of_reviewers_are_not_in_reports(evaluated, curated):
    """They may quote a customer. Without texts, not even the values of cells are."""
    curated.add("bad")
    for who in ("ben", "cleo"):
        evaluated("gold", "review", "bad", "wrong_block", "--as", who, "--note", "SECRET")
    retire(curated.root, "t29", "ada")
    assert "SECRET" in evaluated("gold", "stats").out
    evaluated.evaluate("-o", "r.json", "--no-content")
    text = Path("r.json").read_text()
    (dataset,) = json.loads(text)["datasets"]
    assert [flag["verdict"] for flag in dataset["gold"]["dropped"][0]["flags"]] == ["wrong_block", "wrong_block"]
    assert dataset["gold"]["coverage"]["sparse"] is None
    assert "SECRET" not in text


def test_secrets_are_redacted(evaluated, curated, monkeypatch):
    """A value of the metadata that is also a secret of the manifest is in no report and not in the store."""
    monkeypatch.setenv("TOKEN", "s3cr3t-value")
    curated.add("x", domain="s3cr3t-value", difficulty="hard", failure_mode="numeric")
    curated.say("x", ben="confirm", cleo="confirm")
    evaluated.evaluation["judge"] = {"model": "m", "baseUrl": "http://127.0.0.1:9", "apiKey": "$env:TOKEN"}
    evaluated.evaluate("-o", "r.json", "-o", "r.html")
    (cell,) = json.loads(Path("r.json").read_text())["datasets"][0]["gold"]["coverage"]["sparse"]
    assert cell["values"]["domain"] != "s3cr3t-value"
    files = [path for path in Path().rglob("*") if path.is_file() and path.parts[0] != "gold"]
    assert len(files) > 4
    assert not [path for path in files if b"s3cr3t-value" in path.read_bytes()]


def test_an_undecided_comparison_names_thin_cells(evaluated, curated, agent):
    for number in range(2):
        curated.add(f"law{number}", domain="law", difficulty="hard", failure_mode="numeric")
        curated.say(f"law{number}", ben="confirm", cleo="confirm")
    evaluated.evaluate()
    evaluated("runs", "label", "latest", "one")
    evaluated.evaluate()
    said = " ".join(evaluated("compare", "one", "latest").out.split())
    assert (
        "dataset rfp: no evidence for string_match; cells of domain × difficulty × failure_mode with fewer than 3"
        in said
    )
    assert "where a change could go unnoticed: law × hard × numeric (2)" in said
    agent.reply = {"response": "no idea"}
    evaluated.evaluate()
    assert "law × hard" not in evaluated("compare", "one", "latest").out


def test_hostile_names_stay_inert():
    from evalspec.reports.terminal import render_view_terminal
    from evalspec.reports.view.curation import build_curation_view

    shown = render_view_terminal(build_curation_view(sample_curation("\x1b[2J[red]x")), width=80, color=False)
    assert "\x1b" not in shown
    assert "[red]x" in shown
