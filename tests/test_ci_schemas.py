"""Files for other programs are valid by the schemas of check-jsonschema, and our workflows run pinned code."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
_USED = re.compile(r"\buses: *(\S+)(.*)")


def check(schema, paths, *options):
    command = [sys.executable, "-m", "check_jsonschema", "--builtin-schema", f"vendor.{schema}", *options]
    done = subprocess.run([*command, *map(str, paths)], capture_output=True, text=True, check=False)
    return done.returncode, done.stdout + done.stderr


@pytest.mark.parametrize(
    ("schema", "paths"),
    [
        ("github-workflows", WORKFLOWS),
        ("github-actions", [ROOT / "action.yml"]),
        ("compose-spec", [ROOT / "examples" / "service" / "compose.yaml"]),
    ],
)
def test_files_of_this_repository_are_valid(schema, paths, tmp_path):
    code, said = check(schema, paths)
    assert code == 0, said
    broken = tmp_path / "broken.yml"
    broken.write_text("jobs: 1\nservices: 1\nruns: 1\n")
    assert check(schema, [broken])[0] == 1


@pytest.mark.parametrize("folder", [".", "bots/shop"])
@pytest.mark.parametrize(
    ("host", "schema", "pattern", "options"),
    [
        ("github.com", "github-workflows", ".github/**/*.yml", []),
        ("gitlab.com", "gitlab-ci", ".gitlab*.yml", ["--data-transform", "gitlab-ci"]),
    ],
)
def test_what_init_writes_is_valid(project, tmp_path, folder, host, schema, pattern, options):
    for command in (["init", "--quiet"], ["remote", "add", "origin", f"https://{host}/o/shop.git"]):
        subprocess.run(["git", *command], check=True)
    assert project("init", folder).code == 0
    code, said = check(schema, sorted(Path().glob(pattern)), *options)
    assert code == 0, said


def test_what_users_copy_has_the_versions_of_these_workflows():
    """Those that are kept up to date. Pins of a commit are for this repository only."""
    pinned = {
        action.partition("@")[0]: rest.strip(" #").partition(".")[0]
        for path in WORKFLOWS
        for action, rest in _USED.findall(path.read_text(encoding="utf-8"))
    }
    folders = (ROOT / "docs" / "how-to").glob("*.md"), (ROOT / "evalspec" / "cli" / "scaffold").glob("*.yml")
    texts = [path.read_text(encoding="utf-8") for paths in ([ROOT / "action.yml"], *folders) for path in paths]
    used = {action.partition("@")[::2] for text in texts for action, _ in _USED.findall(text)}
    found = {(name, version) for name, version in used if name in pinned}
    assert found == {(name, pinned[name]) for name, _ in found}
    assert {name for name, _ in found} >= {"actions/checkout", "actions/setup-python", "actions/upload-artifact"}


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.name)
def test_actions_are_pinned_to_a_commit_with_its_version(path):
    used = _USED.findall(path.read_text(encoding="utf-8"))
    assert used
    for action, rest in used:
        assert re.fullmatch(r"[\w/-]+@[0-9a-f]{40}", action), action
        assert re.fullmatch(r" # v\d+\.\d+\.\d+", rest), action
