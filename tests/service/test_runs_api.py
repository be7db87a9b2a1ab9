"""Runs by HTTP: the index, filters, pages, reports, resuming, cancelling and deleting, on both databases."""

import json
import os
import signal
import time

import pytest

import evalspec
from evalspec.service import run_index
from servers.service import wait_for, write_project


@pytest.fixture(autouse=True)
def fresh(monkeypatch):
    """Every list looks at the files."""
    monkeypatch.setattr(run_index, "_FRESH_SECONDS", 0.0)


@pytest.fixture
def add_run(projects):
    """A function that makes a run as the command line does."""

    def add(reply="Paris", namespace="shop", **options):
        folder = projects[namespace]
        given = {"agent": lambda question: reply, "store": folder / ".evalspec", **options}
        return evalspec.evaluate(folder / "agent.yaml", **given)

    return add


def ids(answer):
    assert answer.status_code == 200, answer.text
    return [run["run_id"] for run in answer.json()["runs"]]


def test_runs_of_the_command_line_are_listed_newest_first_with_their_values(client, add_run):
    runs = [add_run(), add_run("Rome"), add_run(sample_size=3)]
    add_run(namespace="docs")
    assert ids(client.get("/v1/runs")) == [run.id for run in reversed(runs)]
    listed = client.get("/v1/runs").json()["runs"][1]
    assert (listed["status"], listed["verdict"], listed["manifest"]) == ("finished", "NOT_GATED", "agent.yaml")
    metric = listed["datasets"][0]["metrics"]["exact_match"]
    summary = runs[1].datasets[0].metrics["exact_match"]
    assert (metric["value"], tuple(metric["interval"]), metric["scored"]) == (0.0, summary.interval, 6)
