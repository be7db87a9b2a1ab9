"""What `make dist` builds, installed into an empty environment: the slim installation of the README, made for real."""

import json
import os
import subprocess
import sys
import tarfile
import tomllib
import venv
import zipfile

import pytest

from built_wheel import ROOT, build_wheel, make_dist
from evalspec.base.distribution import list_requirements

JUDGED_ONLY = {"ragas", "langchain-community", "instructor", "openai"}
MOST_MB = 125
"""What a workflow installs for a manifest without a judge, beside pip, setuptools and evalspec: millions of bytes."""


def names(requirements):
    return {requirement.split("=")[0].split("<")[0].split(">")[0].strip() for requirement in requirements}


def slim_requirements():
    lines = (ROOT / "requirements-slim.txt").read_text(encoding="utf-8").splitlines()
    return {line for line in lines if line and not line.startswith("#")}


def test_slim_is_the_default_without_what_only_some_metrics_need():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert project["name"] == "evalspec-runner"
    default = set(project["dependencies"])
    assert names(default - slim_requirements()) == JUDGED_ONLY | {"sacrebleu"}
    assert slim_requirements() <= default
    assert names(list_requirements()) == names(slim_requirements())
    assert set(project["optional-dependencies"]["judge"] + project["optional-dependencies"]["bleu"]) <= default


def test_pip_chooses_no_jsonpath_with_other_modules():
    """2.0.2 is for Python 3.12 and later, so what is pinned for 3.11 does not show it."""
    assert "jsonpath-rfc9535>=0.1.6,<2" in slim_requirements()


@pytest.fixture(scope="module")
def distributions(tmp_path_factory):
    """The wheel and the sdist of a checkout with files that git does not track. twine has checked both."""
    return make_dist(tmp_path_factory.mktemp("dist"), litter=True)


def test_both_have_the_tracked_files_of_the_package_and_no_tests(distributions):
    wheel, sdist = distributions
    listed = subprocess.run(["git", "ls-files", "evalspec"], cwd=ROOT, capture_output=True, text=True, check=True)
    wanted = set(listed.stdout.splitlines())
    with zipfile.ZipFile(wheel) as archive:
        assert {name for name in archive.namelist() if ".dist-info/" not in name} == wanted
    with tarfile.open(sdist) as archive:
        names = {member.name.partition("/")[2] for member in archive if member.isfile()}
    assert wanted | {"LICENSE", "CHANGELOG.md", "requirements-slim.txt"} <= names
    packed = {name for name in names if name.startswith("evalspec/")}
    assert packed == wanted
    assert not [name for name in names if name.startswith("tests/")]


def test_the_same_files_are_the_same_bytes_elsewhere_and_later(distributions, tmp_path):
    before = os.umask(0o077)
    try:
        again = make_dist(tmp_path, litter=True)
    finally:
        os.umask(before)
    assert [path.read_bytes() for path in again] == [path.read_bytes() for path in distributions]


def test_a_wheel_that_pip_builds_from_a_checkout_has_the_same_files(distributions, tmp_path):
    made, _ = distributions
    with zipfile.ZipFile(made) as ours, zipfile.ZipFile(build_wheel(tmp_path, litter=True)) as theirs:
        assert set(theirs.namelist()) == set(ours.namelist())


@pytest.fixture(scope="module")
def slim(tmp_path_factory, distributions):
    """The bin folder of an environment with a slim installation. evalspec itself says what that needs."""
    folder = tmp_path_factory.mktemp("slim")
    venv.create(folder, with_pip=True)
    pip = [
        str(folder / "bin" / "python"),
        "-m",
        "pip",
        "install",
        "--quiet",
        "--disable-pip-version-check",
        "--no-compile",
    ]
    wheel, _ = distributions  # built from the sdist
    subprocess.run([*pip, "--no-deps", str(wheel)], check=True, capture_output=True)
    listed = subprocess.run([folder / "bin" / "evalspec", "requirements", "--slim"], check=True, capture_output=True)
    (folder / "slim.txt").write_bytes(listed.stdout)
    pinned = ["--constraint", str(ROOT / "constraints.txt"), "--requirement", str(folder / "slim.txt")]
    subprocess.run([*pip, *pinned], check=True, capture_output=True)
    return folder / "bin"


def test_it_is_small(slim):
    (packages,) = (slim.parent / "lib").glob("python*/site-packages")
    own = ("pip", "setuptools", "pkg_resources", "_distutils_hack", "evalspec")
    files = [file for one in packages.iterdir() if not one.name.startswith(own) for file in (one, *one.rglob("*"))]
    assert sum(file.stat().st_size for file in files if file.is_file()) <= MOST_MB * 1_000_000


def test_everything_but_judged_metrics_works(slim, tmp_path):
    def run(*arguments):
        return subprocess.run(
            [slim / "evalspec", *arguments], cwd=tmp_path, capture_output=True, text=True, check=False
        )

    assert run("init").returncode == 0
    evaluated = run("evaluate", "agent.yaml")
    assert evaluated.returncode == 0, evaluated.stderr
    assert evaluated.stdout.startswith("PASS")
    manifest = (tmp_path / "agent.yaml").read_text(encoding="utf-8")
    (tmp_path / "judged.yaml").write_text(
        manifest.replace("metrics: [string_match]", "metrics: [string_match, toxicity]")
    )
    refused = run("validate", "judged.yaml")
    assert refused.returncode == 2
    said = "toxicity needs ragas, which is not installed. pip install ragas==0.4.3 'langchain-community<0.4.2'"
    assert said in refused.stdout
    needed = run("requirements", "judged.yaml", "--json")
    assert json.loads(needed.stdout)["extras"] == {"judge": ["toxicity"]}
    assert run("requirements", "agent.yaml").stdout == run("requirements", "--slim").stdout


def test_this_environment_is_not_slim():
    """The test above means something only where the full installation differs."""
    code = "import importlib.util as u, sys; sys.exit(u.find_spec('ragas') is None)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
