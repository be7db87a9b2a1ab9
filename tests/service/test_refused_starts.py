"""Options that the service refuses, and folders that it does not mistake for others."""

import os
import shutil
import time

import pytest
from msgspec.structs import replace

from evalspec.base.errors import StoreError
from evalspec.cli.main import run
from evalspec.service import jobs
from evalspec.service.database import writing
from evalspec.service.evaluation_files import EvaluationFile, write_evaluation
from evalspec.service.evaluations import EvaluationRequest
from evalspec.service.jobs import JobStatus
from evalspec.service.run_index import RunFilter, RunIndex
from evalspec.service.serving import prepare_database, purge_expired
from evalspec.service.settings import Project, ServiceLimits
from evalspec.service.stores import read_store_id
from evalspec.service.tables import JOBS
from evalspec.service.tokens import create_token, find_caller

DAY = 86_400


@pytest.fixture
def database(tmp_path):
    return f"sqlite:///{tmp_path / 'service.db'}"


@pytest.mark.parametrize("name", ["https://evals.example.com", "evals.example.com/", "evals.example.com:443", ""])
def test_a_name_of_the_server_is_no_url(database, capsys, name):
    assert run(["serve", "--check", "--port", "1", "--database", database, "--server-name", name]) == 2
    assert f"'{name}' is not the name of a host. write it like evals.example.com" in capsys.readouterr().err


def test_the_public_address_has_a_scheme(database, capsys):
    assert run(["serve", "--check", "--port", "1", "--database", database, "--public-url", "evals.example.com"]) == 2
    assert "--public-url: 'evals.example.com' is no address. write it like https:" in capsys.readouterr().err


@pytest.mark.parametrize("command", ["serve", "worker"])
def test_a_lease_is_between_a_second_and_an_hour(command, database, tmp_path, capsys):
    given = ["--database", database, "--project", f"a={tmp_path}"]
    for seconds in ("0", "-1", "3601", "0.5", "nan", "1e3", str(10**40)):
        assert run([command, "--lease", seconds, *given]) == 2, seconds
        assert "--lease" in capsys.readouterr().err
    if command == "serve":
        for seconds in ("1", "3600"):
            assert run([command, "--check", "--lease", seconds, "--port", "1", *given]) in (0, 2)
            assert "--lease" not in capsys.readouterr().err


def test_projects_share_no_files(database, tmp_path, capsys):
    (tmp_path / "a" / "sub").mkdir(parents=True)
    (tmp_path / "ab").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "a" / "sub")
    for one, other in (("a", "a/sub"), ("a/sub", "a"), ("a", "a"), ("a", "link"), ("link", "a"), ("a", "ab/../a/sub")):
        given = ["--project", f"x={tmp_path / one}", "--project", f"y={tmp_path}/{other}"]
        assert run(["serve", "--check", "--database", database, *given]) == 2
        assert "in the folder of another namespace, or around it" in capsys.readouterr().err, (one, other)
    apart = ["--project", f"x={tmp_path / 'a'}", "--project", f"y={tmp_path / 'ab'}"]
    run(["serve", "--check", "--database", database, *apart])
    assert "around it" not in capsys.readouterr().err, "ab only begins like a"


def test_namespaces_that_cannot_be_isolated_are_not_started(tmp_path, capsys, monkeypatch):
    monkeypatch.delenv("EVALSPEC_ISOLATION", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path / "empty"))  # without bubblewrap
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
    projects = [f"--project={name}={tmp_path / name}" for name in ("a", "b")]

    def start(*given, database=f"sqlite:///{tmp_path / 'service.db'}"):
        assert run(["serve", "--check", "--port", "1", "--database", database, *projects, *given]) == 2
        return capsys.readouterr().err

    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    none = "the code of one namespace could read the files and variables of the others"
    assert f"--isolation: {none}. start it as root, install bubblewrap, or pass --isolation off" in start()
    assert "--isolation: only root can run code as other users" in start("--isolation", "uid")
    assert "Python does not start isolated (bubblewrap)" in start("--isolation", "bubblewrap")

    monkeypatch.setattr(os, "geteuid", lambda: 0)
    inside = tmp_path / "a" / "service.db"
    assert f"{inside} is in the folder of a namespace" in start(database=f"sqlite:///{inside}")
    inside.touch(mode=0o644)
    assert f"--database: others may read {inside}. chmod 600 {inside}" in start(database=f"sqlite:///{inside}")
    tmp_path.chmod(0o700)
    assert f"--project: {tmp_path}: the code of a cannot enter this folder" in start("--isolation", "uid")


@pytest.mark.parametrize(
    "user", ["", " ", "\t", "\u00a0", "\u200b", "ana\nben", "ana\x1b[2J", "ana\0", "\ud800"], ids=ascii
)
@pytest.mark.parametrize("more", [[], ["--login"]], ids=["token", "link"])
def test_nobody_is_blank(database, capsys, user, more):
    given = ["--scope", "read", "--all-namespaces", "--database", database, *more]
    assert run(["token", "create", "--user", user, *given]) == 2
    printed = capsys.readouterr()
    assert (printed.out, "--user: not a name" in printed.err) == ("", True)


def test_only_an_id_revokes_a_token(database, engine, capsys):
    token = create_token(engine, "ana", [], None, 60)
    id = find_caller(engine, token).token_id
    for odd in ("\udcff", "\0", "%", "_" * 12, "' OR 1=1 --", "é", f"{id}\0", f"{id} ", id[:-1], token, "a" * 10_000):
        assert run(["token", "revoke", "--database", database, "--", odd]) == 2, ascii(odd)
        assert "there is no valid token" in capsys.readouterr().err
    assert find_caller(engine, token) is not None
    assert run(["token", "revoke", "--database", database, id]) == 0
    assert find_caller(engine, token) is None


def test_nothing_is_deleted_while_a_folder_is_not_mounted(engine, settings, add_run):
    project = settings.projects["shop"]
    made = add_run().id
    old = f"{time.strftime('%Y%m%d', time.gmtime(time.time() - 40 * DAY))}{made[8:]}"
    (project.store.runs / made).rename(project.store.runs / old)
    index = RunIndex(engine, project)
    assert [entry.id for entry in index.list(RunFilter(), 10)] == [old]
    job = jobs.enqueue(engine, "shop", "run", {}, "a", id="run_1", calls=1, limits=ServiceLimits(), run_id=old)
    with writing(engine) as connection:
        connection.execute(JOBS.update().values(status=JobStatus.COMPLETED, finished_at=time.time() - 40 * DAY))
    limited = replace(settings, limits=ServiceLimits(retention_days=30))
    away = project.folder / "away"
    project.root.rename(away)
    for is_mounted_elsewhere in (False, True):
        project.root.mkdir(exist_ok=is_mounted_elsewhere)
        purge_expired(engine, limited)
        with pytest.raises(StoreError, match="store-id: gone"):
            RunIndex(engine, project).list(RunFilter(), 10)
    assert jobs.find_job(engine, "shop", job.id) is not None
    project.root.rmdir()
    away.rename(project.root)
    assert [entry.id for entry in RunIndex(engine, project).list(RunFilter(), 10)] == [old]
    purge_expired(engine, limited)
    assert RunIndex(engine, project).list(RunFilter(), 10) == []
    assert jobs.find_job(engine, "shop", job.id) is None


def test_a_copied_project_has_its_runs_and_leaves_the_evaluations_to_the_first(engine, settings, add_run, tmp_path):
    shop = settings.projects["shop"]
    run_id = add_run().id
    write_evaluation(shop, EvaluationFile("eval_0123456789ab", "ana", 1.0, 2, EvaluationRequest("r", "d", 1)))
    shutil.copytree(shop.folder, tmp_path / "copy", symlinks=True)
    copy = Project("copy", tmp_path / "copy")
    assert read_store_id(copy) == read_store_id(shop)
    both = replace(settings, projects={"shop": shop, "copy": copy})
    for _ in range(2):
        prepare_database(both, reindex=True).dispose()
    found = {name: jobs.list_jobs(engine, name, ["evaluation"]) for name in both.projects}
    assert ([job.id for job in found["shop"]], found["copy"]) == (["eval_0123456789ab"], [])
    for project in both.projects.values():
        assert [entry.id for entry in RunIndex(engine, project).list(RunFilter(), 10)] == [run_id]


def test_a_folder_without_its_volume_gets_no_new_store(engine, settings):
    project = settings.projects["shop"]
    project.root.rename(project.folder / "away")
    with pytest.raises(StoreError, match="store-id: gone"):
        prepare_database(settings)
    assert not project.root.exists()
