"""kill -9 of the process group at any moment: the command again leads to where nobody was killed.

A few kills by default; CHAOS=N, or `make chaos`, has N over all operations. CHAOS_FROM=N begins with kill number N.
"""

import os

import pytest

from chaos.kills import Bench
from chaos.operations import OPERATIONS

KILLS = int(os.environ.get("CHAOS", "20"))
FIRST = int(os.environ.get("CHAOS_FROM", "0"))
EACH = max(1, KILLS // len(OPERATIONS))


@pytest.fixture(scope="module")
def bench(tmp_path_factory):
    with Bench(tmp_path_factory.mktemp("chaos")) as bench:
        yield bench


@pytest.mark.timeout(0)
@pytest.mark.parametrize("name", OPERATIONS)
def test_the_command_again_makes_up_for_a_kill(name, bench):
    found = [one for number in range(FIRST, FIRST + EACH) for one in bench.kill(name, number)]
    assert not found, "\n".join(found)


def test_a_run_with_a_description_has_all_that_a_resume_needs(bench):
    """Killed before one change after the other, until run.json is there for the first time."""
    assert bench.find_first_begun("evaluate") >= {"run.json", "inputs.jsonl"}
