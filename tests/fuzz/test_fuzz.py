"""Whatever the files, replies and command lines hold: no traceback, an exit code of the table, and one JSON document.

A few hundred inputs by default; FUZZ=N, or `make fuzz`, has N. FUZZ_FROM=N begins with input number N of each subject.
"""

import os
from collections import defaultdict
from pathlib import Path

import pytest

from fuzz.inputs import Workshop, spread
from fuzz.known import KNOWN
from fuzz.subjects import SUBJECTS

IS_LONG = "FUZZ" in os.environ
COUNT = int(os.environ.get("FUZZ", "150"))
FIRST = int(os.environ.get("FUZZ_FROM", "0"))
FINDINGS = Path(os.environ.get("FUZZ_FINDINGS", ".fuzz")).absolute()


@pytest.fixture(scope="module")
def workshop(tmp_path_factory):
    with Workshop(tmp_path_factory.mktemp("fuzz"), FINDINGS) as workshop:
        yield workshop


@pytest.mark.timeout(0)
@pytest.mark.parametrize(("name", "count"), list(spread(COUNT)))
def test_no_input_breaks_a_rule(name, count, workshop):
    found = defaultdict(list)
    for number in range(FIRST, FIRST + count):
        for finding in workshop.try_input(name, number):
            if finding.violation not in KNOWN:
                found[finding.violation].append(finding)
    told = [f"{len(alike)} ×, the first: {alike[0]}" for alike in found.values()]
    assert not told, f"inputs of {name} that break a rule (in {FINDINGS}):\n" + "\n".join(told)


@pytest.mark.skipif(not IS_LONG, reason="as many commands as a short run; FUZZ=N has it")
@pytest.mark.timeout(0)
@pytest.mark.parametrize("name", SUBJECTS)
def test_what_the_inputs_begin_as_is_valid(name, workshop):
    """Else most inputs would be refused at the door."""
    for ended in workshop.try_unchanged(name):
        assert ended.code in (0, 1), ended
