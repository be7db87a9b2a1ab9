"""What docs/explanation/privacy.md promises, byte by byte: no key is in any output, in no form in which it travels."""

import base64
import gzip
import html
import io
import json
import os
import subprocess
import sys
import tarfile
import zipfile
from collections.abc import Callable
from itertools import chain
from pathlib import Path
from urllib.parse import quote

import pytest
import yaml

from servers.scripted_judge import ScriptedJudge, status

KEYS = {
    "FIRST": "sk-proj-9fQ2-LmX7_bT4Zr8Wd",
    "PHRASE": "pass phrase with 4 Spaces",
    "QUOTED_SECRET": "qu\"ote's&<b>4you\\n",
    "LETTERS_KEY": "Schlüssel-straße-77",
    "TWELVE_PASSWORD": "abc123XYZ789",
    "QUERY": "a+b/c=D?e&f#g%h;42",
}
"""The agent gets the first two and the last in its headers. Nothing refers to the others: see their names."""

FORMS: dict[str, Callable[[str], str]] = {
    "as it is": str,
    "capitals": str.upper,
    "small letters": str.lower,
    "hex": lambda key: key.encode().hex(),
    "hex with colons": lambda key: key.encode().hex(":").upper(),
    "each byte of a URL": lambda key: "".join(f"%{byte:02X}" for byte in key.encode()),
    "a query": lambda key: quote(key, safe=""),
    "decimal entities": lambda key: "".join(f"&#{ord(letter)};" for letter in key),
    "hexadecimal entities": lambda key: "".join(f"&#x{ord(letter):x};" for letter in key),
    "HTML": html.escape,
    "base64": lambda key: base64.b64encode(key.encode()).decode(),
    "JSON in JSON": lambda key: json.dumps(json.dumps(key)[1:-1])[1:-1],
    "three dots": lambda key: f"{key[:10]}...",
}
REPORTS = ("json", "jsonl", "csv", "html", "md", "junit.xml", "sarif", "parquet")


@pytest.fixture
def database(tmp_path):
    """One whose bytes are files."""
    return f"sqlite:///{tmp_path / 'service.db'}"


def list_needles():
    """Every form of every key, as it is and as JSON, HTML and CSV write it."""
    forms = [form(key) for key in KEYS.values() for form in FORMS.values()]
    forms += [json.dumps(text, ensure_ascii=plain)[1:-1] for text in forms for plain in (True, False)]
    return sorted({text.encode() for text in chain(forms, map(html.escape, forms))})


def read_layers(name, content):
    """The bytes of a file, and those of what is packed in it."""
    yield name, content
    if content[:2] == b"\x1f\x8b":
        yield from read_layers(f"{name}, unpacked", gzip.decompress(content))
    elif content[:4] == b"PK\x03\x04":
        with zipfile.ZipFile(io.BytesIO(content)) as packed:
            for member in packed.namelist():
                yield from read_layers(f"{name}: {member}", packed.read(member))
    elif content[257:262] == b"ustar":
        with tarfile.open(fileobj=io.BytesIO(content)) as packed:
            for entry in packed.getmembers():
                yield from read_layers(f"{name}: {entry.name}", packed.extractfile(entry).read())
    elif content[:4] == b"PAR1":
        from pyarrow import parquet

        yield f"{name}, as rows", repr(parquet.read_table(io.BytesIO(content)).to_pylist()).encode()


def test_no_form_of_a_key_is_in_any_byte_of_a_run_its_reports_and_the_service(server, projects, tmp_path, agent):
    ci = tmp_path / "ci"
    ci.mkdir()
    said = {name: " | ".join(map(form, KEYS.values())) for name, form in FORMS.items()}
    said |= {f"{name}, rejected": text for name, text in said.items()}
    lines = [{"id": f"s{number}", "input": name, "expected": "Paris"} for number, name in enumerate(said)]
    (ci / "qa.jsonl").write_text("".join(f"{json.dumps(line)}\n" for line in lines))

    def answer(body):
        text = said[body["message"]]
        return {"error": text} if "rejected" in body["message"] else {"response": text, "contexts": [{"text": text}]}

    agent.reply = answer
    endpoint = {
        "path": "/chat", "protocol": "custom", "request": {"message": "{{input}}"}, "maxRetries": 0,
        "response": {"answer": "$.response", "contexts": "$.contexts[*].text"},
        "headers": {"Authorization": "Bearer ${env:FIRST}", "X-Phrase": "$env:PHRASE", "X-Query": "$env:QUERY"},
    }  # fmt: skip
    manifest = {"apiVersion": "agentspec.io/v1", "kind": "AgentSpec", "metadata": {"name": "bot"}}
    with ScriptedJudge() as judge:
        rejecting = status(401, {}, f"Incorrect API key provided: {KEYS['PHRASE']}. Header {KEYS['PHRASE'].title()}")
        config = {"model": "m", "baseUrl": judge.url, "apiKey": "$env:PHRASE", "maxRetries": 0}
        dataset = {"name": "qa", "path": "$file:qa.jsonl", "metrics": ["string_match", "toxicity", "rouge"]}
        spec = {"api": {"url": agent.url, "chatEndpoint": endpoint}}
        spec["evaluation"] = {"judge": config, "datasets": [dataset]}
        (ci / "agent.yaml").write_text(yaml.safe_dump({**manifest, "spec": spec}))
        served = server()
        environment = {
            **os.environ, **KEYS, "EVALSPEC_TOKEN": served.token("push"), "GITHUB_ACTIONS": "true",
            "GITHUB_STEP_SUMMARY": str(ci / "summary.md"), "GITHUB_OUTPUT": str(ci / "output.txt"),
        }  # fmt: skip

        def spawn(*arguments):
            command = [sys.executable, "-m", "evalspec", *arguments]
            done = subprocess.run(command, cwd=ci, env=environment, capture_output=True, timeout=120)
            return done.returncode, done.stdout + done.stderr

        judge.mode = "ok"
        cached = tmp_path / "cached"
        cached.mkdir()
        (cached / "qa.jsonl").write_bytes((ci / "qa.jsonl").read_bytes())
        judged = {**spec["evaluation"], "datasets": [{**dataset, "metrics": ["faithfulness", "toxicity"]}]}
        (cached / "agent.yaml").write_text(yaml.safe_dump({**manifest, "spec": {**spec, "evaluation": judged}}))
        own = {name: value for name, value in environment.items() if name != "EVALSPEC_NO_CACHE"}
        command = [sys.executable, "-m", "evalspec", "evaluate", "agent.yaml", "--json"]
        filled = subprocess.run(command, cwd=cached, env=own, capture_output=True, timeout=120, check=True)
        stats = subprocess.run(
            [*command[:3], "cache", "stats", "--json"], cwd=cached, env=own, capture_output=True, check=True
        )
        assert json.loads(stats.stdout)["entries"]["score"] >= 2 * len(FORMS), (filled.stderr, stats.stdout)
        kept = b"".join(path.read_bytes() for path in (cached / ".evalspec" / "cache").iterdir())
        assert b"[redacted:" in kept, "the judge quoted a key"
        judge.mode = rejecting

        outputs = [part for suffix in REPORTS for part in ("-o", f"r.{suffix}")]
        printed = {"evaluate": spawn("evaluate", "agent.yaml", "--push", "--to", served.url, *outputs)}
    later = [part for suffix in REPORTS for part in ("-o", f"later.{suffix}")]
    printed["report"] = spawn("report", "-v", *later)
    printed["report --json"] = spawn("report", "--json")
    printed["show"] = spawn("show", "latest", "s0", "s14")
    printed["compare"] = spawn("compare", "latest", "latest", "-o", "c.html", "-o", "c.md", "-o", "c.json")
    assert printed["evaluate"][0] == 0 and b"pushed: " in printed["evaluate"][1], printed["evaluate"]
    (run,) = (ci / ".evalspec" / "runs").glob("2*")
    log = (run / "samples.jsonl").read_bytes()
    assert log.count(b"[redacted:") >= 3 * len(FORMS) * len(KEYS), "the agent said them all, and they can be restored"
    with served.client("read") as client:
        pages = [f"/v1/runs/{run.name}", f"/v1/runs/{run.name}/samples", f"/v1/runs/{run.name}/reports/html"]
        printed |= {page: (0, client.get(page).content) for page in pages}
    folders = [ci, projects["shop"], tmp_path]
    files = {path for folder in folders for path in Path(folder).rglob("*") if path.is_file()}
    contents = {str(path.relative_to(tmp_path)): path.read_bytes() for path in files}
    assert any(name.endswith(("-wal", ".db")) for name in contents) and len(contents) > 2 * len(REPORTS)
    contents |= {name: output for name, (_, output) in printed.items()}
    needles = list_needles()
    found = {
        (place, needle)
        for name, content in contents.items()
        for place, layer in read_layers(name, content)
        for needle in needles
        if needle in layer
    }
    assert not {name for name, _ in found}, sorted(found)[:10]
