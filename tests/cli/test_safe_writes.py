"""Nothing of the user's is overwritten or deleted: inputs, files of another kind, half a file, links, streams."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

FAQ = '{"id": "s0", "input": "q", "expected": "Paris", "relevant": ["d1"]}\n'
SCORER = "import words\ndef score(exchange):\n    return 1.0\n"


@pytest.fixture
def shop(project, agent):
    """A project whose run reads files of every kind, and has been run."""
    project.api = {"url": agent.url, "command": [sys.executable, "bot.py", "-c" * 200], "reuse": True}
    (project.folder / "bot.py").write_text("import words\n")
    (project.folder / "words.py").write_text("WORDS = 1\n")
    (project.folder / "mine.py").write_text(SCORER)
    (project.folder / "corpus.jsonl").write_text('{"id": "d1", "text": "a"}\n')
    project.dataset(
        "qa", FAQ.encode(), corpus="corpus.jsonl", metrics=["string_match", {"name": "m", "scorer": "mine:score"}]
    )
    project.evaluation["ciGate"] = {"enabled": False, "baseline": "main"}
    assert project.evaluate().code == 0
    assert project("runs", "promote", "latest", "--as", "main").code == 0
    return project


def snapshot(folder: Path) -> dict[str, bytes]:
    files = (path for path in folder.rglob("*") if path.is_file() and ".evalspec" not in path.parts)
    return {str(path.relative_to(folder)): path.read_bytes() for path in files if "__pycache__" not in path.parts}


READ = ["agent.yaml", "qa.jsonl", "corpus.jsonl", "mine.py", "words.py", "bot.py", "evals/baselines/main.json"]
COMMANDS = {
    "evaluate": ["evaluate", "agent.yaml"],
    "rescore": ["rescore", "latest", "agent.yaml"],
    "report": ["report", "latest"],
    "compare": ["compare", "latest", "latest"],
}


@pytest.mark.parametrize("command", COMMANDS)
def test_no_report_is_written_over_what_the_run_reads(shop, agent, command):
    """By its name, by a name with `..` in it, by another case, by a symbolic link, by a hard link."""
    folder, asked = shop.folder, len(agent.requests)
    (folder / "sub").mkdir()
    (folder / "evals" / "Baselines").mkdir(exist_ok=True)
    for number, name in enumerate(READ):
        (folder / f"link{number}.json").symlink_to(name)
        os.link(folder / name, folder / f"hard{number}.json")
    before = snapshot(folder)
    targets = [f"{kind}{number}.json" for number in range(len(READ)) for kind in ("link", "hard")]
    targets += ["sub/../evals/baselines/main.json", "evals/Baselines/MAIN.json", ".evalspec/runs/latest/report.json"]
    for target in targets:
        outcome = shop(*COMMANDS[command], "-o", target, "--force")
        assert outcome.code == 2, (target, outcome)
        assert outcome.err.count("\n") == 1 and f"{target}: -o: writing here would change" in outcome.err
    assert snapshot(folder) == before
    assert len(agent.requests) == asked, "refused before anything is spent"
    assert shop(*COMMANDS[command], "-o", "out.json").code == 0


@pytest.mark.parametrize("command", COMMANDS)
def test_no_report_replaces_a_file_that_evalspec_did_not_write(shop, agent, command):
    """Another manifest's dataset, say. Nothing is spent before it is refused, and no folder is created unasked."""
    others = [f"other.{suffix}" for suffix in ("json", "jsonl", "csv", "md", "html", "junit.xml", "sarif", "parquet")]
    others = [name for name in others if command != "compare" or name.endswith(("json", ".md", ".html"))]
    for name in others:
        (shop.folder / name).write_text('{"id": "s0", "run_id": "x", "input": "evalspec report"}\n')
    (shop.folder / "empty.json").touch()
    before, asked = snapshot(shop.folder), len(agent.requests)
    for name in [name for name in others if command != "compare" or not name.endswith(".jsonl")]:
        outcome = shop(*COMMANDS[command], "-o", name)
        assert (outcome.code, f"{name}: -o: this file exists, and evalspec did not write it" in outcome.err) == (
            2,
            True,
        )
    missing = shop(*COMMANDS[command], "-o", "missing/out.json")
    assert (missing.code, "missing/out.json: -o: there is no folder missing" in missing.err) == (2, True)
    (shop.folder / "folder.json").mkdir()
    inside = shop(*COMMANDS[command], "-o", "folder.json")
    assert (inside.code, "folder.json: -o: this is a folder. name a file in it" in inside.err) == (2, True)
    assert snapshot(shop.folder) == before and len(agent.requests) == asked
    assert not (shop.folder / "missing").exists()
    assert shop(*COMMANDS[command], "-o", "other.json", "-o", "empty.json", "--force").code == 0
    for name in others:
        (shop.folder / name).unlink()
    own = [part for name in others if command != "compare" or not name.endswith(".jsonl") for part in ("-o", name)]
    for _ in range(2):
        assert shop(*COMMANDS[command], *own, "-o", "empty.json").code == 0, "reports are replaced by reports"


@pytest.mark.parametrize("command", ["report", "compare"])
def test_notes_of_a_person_around_a_report_are_not_replaced(shop, command):
    runs = [json.loads(shop("evaluate", "agent.yaml", "--json").out)["runId"] for _ in range(2)]
    names = {"report": runs[:1], "compare": runs}[command]
    for suffix in ("md", "html"):
        for _ in range(2):
            assert shop(command, *names, "-o", f"own.{suffix}").code == 0
        own = (shop.folder / f"own.{suffix}").read_text()
        for number, text in enumerate((f"# Notes\n{own}", f"<!-- mine {own} -->", f"<p>{own}", f"\n{own}")):
            (shop.folder / f"{number}.{suffix}").write_text(text)
            assert shop(command, *names, "-o", f"{number}.{suffix}").code == 2
    (shop.folder / "own.md").write_text((shop.folder / "own.md").read_text() + "\nMy conclusion.\n")
    assert shop(command, *names, "-o", "own.md").code == 2


def test_exported_labels_replace_exported_labels_and_nothing_else(shop):
    assert shop("labels", "export", "latest", "-o", "qa.jsonl").code == 2
    assert (shop.folder / "qa.jsonl").read_text() == FAQ
    for options in ([], [], ["--force"]):
        assert shop("labels", "export", "latest", "-o", "labels.csv", *options).code == 0
    assert shop("labels", "export", "latest", "-o", "missing/labels.csv").code == 2


def test_no_report_goes_into_a_dataset_that_is_a_folder(project, agent):
    project.api = {"url": agent.url}
    (project.folder / "coll").mkdir()
    (project.folder / "coll" / "qrels.txt").write_text("s0 0 d1 1\n")
    (project.folder / "coll" / "topics.tsv").write_text("s0\tq\n")
    project.evaluation = {"datasets": [{"name": "qa", "path": "coll", "metrics": ["latency_p95"]}]}
    outcome = project.evaluate("-o", "coll/report.json")
    assert (outcome.code, "would change dataset 'qa' (coll)" in outcome.err) == (2, True)
    assert sorted(path.name for path in (project.folder / "coll").iterdir()) == ["qrels.txt", "topics.tsv"]


def test_promote_overwrites_a_baseline_and_nothing_else(shop):
    assert shop("runs", "promote", "latest", "--as", "main").code == 0, "a baseline is what it is for"
    (shop.folder / "package.json").write_text('{"name": "shop"}')
    assert shop("report", "-o", "report.json").code == 0
    (shop.folder / "evals" / "baselines" / "broken.json").write_text('{"kind": "evalspec base')
    (shop.folder / "linked.json").symlink_to("package.json")
    before = snapshot(shop.folder)
    for name in ("package.json", "./report.json", "broken", "linked.json"):
        outcome = shop("runs", "promote", "latest", "--as", name)
        assert (outcome.code, outcome.err.count("\n")) == (2, 1), outcome
        assert "exists and is not a promoted baseline" in outcome.err
    for name in ("./qa.jsonl", "./agent.yaml", ".evalspec/runs/latest/report.json"):
        outcome = shop("runs", "promote", "latest", "--as", name)
        assert (outcome.code, "--as: writing here would change" in outcome.err) == (2, True), outcome
    assert snapshot(shop.folder) == before


def test_convert_and_remap_never_write_over_what_they_read(project):
    folder = project.folder
    (folder / "d.jsonl").write_text(FAQ)
    (folder / "corpus.jsonl").write_text('{"id": "d1", "text": "a passage of text"}\n')
    (folder / "link.jsonl").symlink_to("d.jsonl")
    os.link(folder / "corpus.jsonl", folder / "hard.jsonl")
    before = snapshot(folder)
    for target in ("d.jsonl", "D.jsonl", "link.jsonl", "hard.jsonl", "corpus.jsonl", "../" + folder.name + "/d.jsonl"):
        arguments = ["d.jsonl", target, "--to", "jsonl", "--corpus", "corpus.jsonl", "--lossy", "--force"]
        outcome = project("convert", *arguments)
        assert (outcome.code, "DST: writing here would change" in outcome.err) == (2, True), (target, outcome)
    outcome = project("remap", "corpus.jsonl", "corpus.jsonl", "d.jsonl", "-o", "D.JSONL")
    assert (outcome.code, "-o: writing here would change DATASET" in outcome.err) == (2, True), outcome
    assert snapshot(folder) == before
    (folder / "coll").mkdir()
    shutil.move(folder / "d.jsonl", folder / "coll" / "topics.tsv")
    outcome = project("convert", "coll/topics.tsv", "coll", "--from", "jsonl", "--to", "trec", "--lossy", "--force")
    assert (outcome.code, (folder / "coll" / "topics.tsv").read_text()) == (2, FAQ)


def test_a_symbolic_link_stays_and_its_file_is_replaced_with_its_mode(shop):
    kept = shop.folder / "kept"
    kept.mkdir()
    (kept / "report.json").write_text("")
    (kept / "report.json").chmod(0o640)
    (shop.folder / "report.json").symlink_to("kept/report.json")
    (shop.folder / "new.json").symlink_to("kept/later.json")
    assert shop("report", "-o", "report.json", "-o", "new.json").code == 0
    assert (shop.folder / "report.json").is_symlink() and (shop.folder / "new.json").is_symlink()
    assert json.loads((kept / "report.json").read_text()) == json.loads((kept / "later.json").read_text())
    assert (kept / "report.json").stat().st_mode & 0o777 == 0o640
    assert sorted(path.name for path in kept.iterdir()) == ["later.json", "report.json"], "no temporary file stays"
    (shop.folder / "d.trec.jsonl").symlink_to("kept/d.jsonl")
    assert shop("convert", "qa.jsonl", "d.trec.jsonl", "--to", "jsonl").code == 0
    assert (kept / "d.jsonl").read_text() and (shop.folder / "d.trec.jsonl").is_symlink()


def spawn(folder: Path, *arguments: str, limit: int | None = None, **keywords) -> subprocess.CompletedProcess[str]:
    """The command in a process of its own; `limit`: no file may grow beyond so many bytes, as if the disk were full."""
    program = "import resource, sys\nsys.dont_write_bytecode = True\n"
    program += f"resource.setrlimit(resource.RLIMIT_FSIZE, ({limit}, {limit}))\n" if limit else ""
    program += "from evalspec.__main__ import main\nsys.exit(main())"
    command = [sys.executable, "-c", program, *arguments]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=120, check=False, **keywords)


def test_a_full_disk_leaves_the_old_report_the_old_baseline_and_the_old_dataset(shop):
    (shop.folder / "report.html").write_text('<!doctype html><meta name="generator" content="evalspec">old report')
    baseline = shop.folder / "evals" / "baselines" / "main.json"
    (shop.folder / "big.jsonl").write_text(FAQ * 1 + "".join(FAQ.replace("s0", f"t{n}") for n in range(90)))
    (shop.folder / "huge.jsonl").write_text("".join(FAQ.replace("s0", f"t{n}") for n in range(200)))
    (shop.folder / "out.jsonl").write_text("old dataset")
    before = snapshot(shop.folder)
    done = spawn(shop.folder, "report", "-o", "report.html", limit=400)
    assert (done.returncode, "report.html: -o: cannot be written: File too large" in done.stderr) == (3, True), done
    done = spawn(shop.folder, "runs", "promote", "latest", "--as", "main", limit=400)
    assert (done.returncode, f"{baseline.relative_to(shop.folder)}: File too large" in done.stderr) == (3, True), done
    done = spawn(shop.folder, "convert", "big.jsonl", "out.jsonl", "--to", "jsonl", "--force", limit=400)
    assert (done.returncode, "out.jsonl: cannot be written: File too large" in done.stderr) == (2, True), done
    done = spawn(shop.folder, "convert", "huge.jsonl", "out.jsonl", "--to", "jsonl", "--force", limit=400)
    assert (done.returncode, "cannot write samples to a temporary file: File too large" in done.stderr) == (2, True), (
        done
    )
    assert snapshot(shop.folder) == before


def test_pipes_and_standard_output_are_written_to(shop):
    document = json.loads(spawn(shop.folder, "report", "--json").stdout)
    printed = spawn(shop.folder, "report", "-o", "/dev/stdout").stdout
    assert json.JSONDecoder().raw_decode(printed)[0] == document, "JSON, then what is printed anyway"
    reading, writing = os.pipe()
    with os.fdopen(reading) as pipe:
        done = spawn(shop.folder, "report", "--json", "-o", f"/dev/fd/{writing}", pass_fds=(writing,))
        os.close(writing)
        assert (done.returncode, json.loads(pipe.read())) == (0, document)
    os.mkfifo(shop.folder / "report.md")
    with subprocess.Popen(["cat", "report.md"], cwd=shop.folder, stdout=subprocess.PIPE, text=True) as reader:
        assert shop("report", "-o", "report.md").code == 0
        assert "string_match" in reader.communicate(timeout=60)[0]
    assert (shop.folder / "report.md").is_fifo()
    done = spawn(shop.folder, "convert", "qa.jsonl", "/dev/stdout", "--to", "jsonl")
    assert (json.loads(done.stdout)["id"], done.returncode) == ("s0", 0), done
    assert "wrote 1 sample to /dev/stdout" in done.stderr
    with (shop.folder / "all.txt").open("w") as file:
        file.write("before\n")
        file.flush()
        command = [sys.executable, "-m", "evalspec", "convert", "qa.jsonl", "/dev/stdout", "--to", "jsonl"]
        subprocess.run(command, cwd=shop.folder, stdout=file, stderr=subprocess.DEVNULL, check=True, timeout=120)
        file.write("after\n")
    lines = (shop.folder / "all.txt").read_text().splitlines()
    assert (lines[0], json.loads(lines[1])["id"], lines[2]) == ("before", "s0", "after")
    done = spawn(shop.folder, "runs", "promote", "latest", "--as", "/dev/stdout")
    assert (done.returncode, json.loads(done.stdout)["kind"]) == (0, "evalspec baseline"), done
    assert Path("/dev/stdout").is_symlink()


def test_githubs_files_are_added_to_and_never_in_part(shop, monkeypatch):
    summary = shop.folder / "summary.md"
    summary.write_text("a step before\n")
    environment = {"GITHUB_ACTIONS": "true", "GITHUB_STEP_SUMMARY": str(summary)}
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    assert shop.evaluate().code == 0
    text = summary.read_text()
    assert text.startswith("a step before\n") and "string_match" in text
    (shop.folder / "big.md").write_text("x" * 150_000)
    done = spawn(
        shop.folder, "evaluate", "agent.yaml", "--no-content", limit=150_100,
        env={**os.environ, "GITHUB_STEP_SUMMARY": str(shop.folder / "big.md")},
    )  # fmt: skip
    assert "cannot write the step summary of this run" in done.stderr
    assert (shop.folder / "big.md").stat().st_size == 150_000


def test_init_follows_no_symbolic_link(project, tmp_path_factory):
    elsewhere = tmp_path_factory.mktemp("elsewhere")
    (elsewhere / "agent.py").write_text("mine")
    (project.folder / "agent.py").symlink_to(elsewhere / "agent.py")
    (project.folder / "agent.yaml").symlink_to(elsewhere / "missing.yaml")
    (project.folder / "evals").symlink_to(elsewhere)
    for options in ((), ("--force",)):
        outcome = project("init", *options)
        assert outcome.code == 2
        assert [line.split(":")[1].strip() for line in outcome.err.splitlines()] == ["agent.yaml", "agent.py", "evals"]
        assert outcome.err.count("is a symbolic link, which init does not follow. move it away") == 3
    assert {path.name: path.read_text() for path in elsewhere.iterdir()} == {"agent.py": "mine"}
    (project.folder / "shop").symlink_to(elsewhere)
    assert project("init", "shop", "--force").code == 0, "the folder that the user names is theirs"


def test_only_runs_of_the_store_are_removed_and_labelled(shop, tmp_path_factory):
    folder, runs = shop.folder, shop.folder / ".evalspec" / "runs"
    (run,) = runs.glob("*-*")
    (folder / "run.json").write_text('{"my": "own"}')
    other = tmp_path_factory.mktemp("other") / run.name
    shutil.copytree(run, other)
    (runs / "20260101T000000.000Z-abcdef12").symlink_to(other)
    shutil.copytree(run, runs / "my copy")
    shutil.copytree(run, folder / "src")
    (folder / ".evalspec" / "labels").mkdir()
    for label, target in {"up": "..", "out": other, "link": "../runs/20260101T000000.000Z-abcdef12"}.items():
        (folder / ".evalspec" / "labels" / label).symlink_to(target)
    everything = sorted(str(path) for path in folder.rglob("*"))
    paths = [".", "./", "..", "", str(folder), str(other), f".evalspec/runs/{run.name}", str(run), "../" + folder.name]
    for name in [*paths, "src", "up", "out", "link", "20260101T000000.000Z-abcdef12", "my copy"]:
        for command in (["rm", "--", name], ["rm", "--", run.name, name], ["label", "--", name, "mine"]):
            outcome = shop("runs", *command)
            assert (outcome.code, outcome.err.count("\n")) == (2, 1), (command, outcome)
    assert sorted(str(path) for path in folder.rglob("*")) == everything
    assert (other / "run.json").is_file()
    assert shop("runs", "prune", "--keep", "0").code == 0
    assert (runs / "my copy").is_dir() and (other / "run.json").is_file() and not run.exists()


def test_a_run_named_twice_is_removed_once(shop):
    (run,) = (shop.folder / ".evalspec" / "runs").glob("*-*")
    outcome = shop("runs", "rm", "latest", run.name)
    assert (outcome.code, outcome.err) == (0, f"removed {run.name}\n")
