"""Each cell of the matrix is one run of the command line against a faulty agent and a faulty judge on loopback; its
report must say what the rules say. FAULTS=all, or `make faults`, runs the larger matrix."""

import os
from collections.abc import Mapping
from itertools import groupby
from operator import attrgetter
from typing import Any

import pytest

from faults.bench import Bench
from faults.injected import AGENT_FAULTS, JUDGE_FAULTS, SLOW_SECONDS
from faults.matrix import GATES, Cell, Gate, generate
from faults.rules import (
    SCORED,
    Limit,
    SampleScores,
    decide_drop,
    decide_floor,
    decide_limit,
    decide_new_failures,
    decide_verdict,
    find_exit_code,
    recount,
    score_samples,
)

FULL = os.environ.get("FAULTS") == "all"
BY_GATE = attrgetter("gate")
CELLS = {gate: list(cells) for gate, cells in groupby(sorted(generate(full=FULL), key=BY_GATE), key=BY_GATE)}
OF_THE_SESSION = (" is down: ", "in which this machine was busy")
"""Notes of what only a run under way can see; they are not stored."""


@pytest.mark.timeout(7200 if FULL else 900)
@pytest.mark.parametrize("name", CELLS)
def test_each_cell_is_reported_as_the_rules_say(name, bench):
    gate = GATES[name]
    if gate.has_baseline:
        bench.promote(name)
    wrong = {}
    for cell in CELLS[name]:
        outcome = bench.run(cell)
        problems = check(outcome, cell, bench)
        if problems:
            wrong[cell] = problems
    assert not wrong, describe(wrong)


def describe(wrong: Mapping[Cell, list[str]]) -> str:
    """One paragraph a cell, only the first ones."""
    shown = [f"{' · '.join(cell)}\n  " + "\n  ".join(problems[:8]) for cell, problems in list(wrong.items())[:6]]
    return f"{len(wrong)} cells differ from the rules\n" + "\n".join(shown)


def check(outcome: Any, cell: Cell, bench: Bench) -> list[str]:
    """Each way in which a report differs from the rules."""
    if "Traceback" in outcome.err or not outcome.out:
        _, mark, trace = outcome.err.partition("Traceback")
        return [f"exit code {outcome.code}: {mark}{trace[-2000:] if mark else outcome.err[-400:]}"]
    gate, samples, document = GATES[cell.gate], bench.recount(cell), outcome.document
    (reported,) = document["datasets"]
    found = check_samples(reported["samples"], samples, gate)
    statuses = {}
    for limit in gate.limits:
        statuses[limit], problems = check_limit(limit, reported["thresholds"], samples, gate)
        found += problems
    regressions = check_regressions(document["regressions"], samples, cell, found)
    floor = decide_floor(samples, gate.limits, gate.policy)
    verdict = decide_verdict(statuses, floor, regressions, samples, gate.policy)
    expected = (verdict, find_exit_code(verdict, samples), gate.no_judge)
    said = (document["verdict"], document["exitCode"], document["partial"])
    if said != expected or outcome.code != expected[1]:
        found.append(
            f"verdict, exit code, partial: {said}, exits with {outcome.code}; by rule {expected}: {document['reasons']}"
        )
    found += check_evidence(document, gate)
    again = bench.project("report", "latest", "--json")
    document["notes"] = [note for note in document["notes"] if not any(mark in note for mark in OF_THE_SESSION)]
    found += [
        f"the report of the stored run has another {key}: {again.document[key]}; {document[key]} before"
        for key in document
        if again.document[key] != document[key]
    ]
    if again.code != outcome.code:
        found.append(f"the report of the stored run exits with {again.code}")
    return found


def check_samples(reported: Any, samples: list[SampleScores], gate: Gate) -> list[str]:
    """Status, cause and value of each score, of samples and of attempts."""
    found = []
    for entry, sample in zip(reported, samples, strict=True):
        if entry["status"] != ("answered" if sample.answered else "failed"):
            found.append(f"{entry['id']} is {entry['status']}")
        found += check_scores(entry["id"], entry["scores"], sample.scores)
        attempts = entry["attempts"] if gate.attempts > 1 else [entry]
        for n, (attempt, scores, asked) in enumerate(zip(attempts, sample.attempts, sample.asked, strict=True), 1):
            found += check_scores(f"{entry['id']}, attempt {n}", attempt["scores"], scores)
            if asked.is_slow and attempt["latencyMs"] < 1000 * SLOW_SECONDS:
                found.append(f"{entry['id']} took {attempt['latencyMs']} ms, though it was slow")
    return found


def check_scores(where: str, reported: Any, scores: Any) -> list[str]:
    found = []
    for metric, score in scores.items():
        said = reported[metric]
        value = said["value"]
        same = (
            value == pytest.approx(score.value) if metric != "latency_p95" else (value is None) == (score.value is None)
        )
        if (said["status"], said["cause"]) != (score.status, score.cause) or not same:
            told = (said["status"], said["cause"], value, said["reason"])
            found.append(f"{where}: {metric}: {told}; by rule {score}")
        if score.status != SCORED and not said["reason"]:
            found.append(f"{where}: {metric} does not say why it is {score.status}")
    return found


def check_limit(limit: Limit, reported: Any, samples: list[SampleScores], gate: Gate) -> tuple[str, list[str]]:
    """Status, value and counts of one limit. Gives the status by rule."""
    key = (limit.metric, limit.slice, limit.stat)
    (said,) = [entry for entry in reported if (entry["metric"], entry["slice"], entry["stat"]) == key]
    expected = decide_limit(limit, samples, gate.policy, said["bound"])
    found = []
    told = (said["status"], said["scored"], said["expected"], said["notApplicableCauses"])
    if told != (expected.status, expected.scored, expected.expected, dict(expected.not_applicable)):
        found.append(f"{key}: {told}; by rule {expected}: {said['reason']}")
    if limit.metric != "latency_p95" and said["value"] != pytest.approx(expected.value):
        found.append(f"{key}: the value is {said['value']}; by rule {expected.value}")
    if gate.policy.confidence and (said["bound"] is None) != (expected.value is None):
        found.append(f"{key}: the end of the interval is {said['bound']} for {expected.value}")
    if said["bound"] is not None and said["bound"] >= said["value"] > 0:
        found.append(f"{key}: the interval ends at {said['bound']}, on the wrong side of {said['value']}")
    if (said["reason"] is None) != (expected.status == "PASS"):
        found.append(f"{key}: {said['status']}, and the reason is {said['reason']}")
    return expected.status, found


def check_regressions(reported: Any, samples: list[SampleScores], cell: Cell, found: list[str]) -> list[str]:
    """Each comparison with the baseline; adds to `found`. Gives the statuses."""
    policy, limits = GATES[cell.gate].policy, GATES[cell.gate].limits
    if policy.max_drop is None:
        return []
    before = score_samples(
        recount(
            AGENT_FAULTS["none"],
            0,
            JUDGE_FAULTS["none"],
            0,
            attempts=GATES[cell.gate].attempts,
            only_first=False,
            answered={},
        ),
        no_judge=False,
    )
    statuses = []
    for entry in reported:
        if entry["metric"] is None:
            allowed = {decide_new_failures(before, samples, limits, policy)}
        else:
            allowed = decide_drop(
                entry["metric"], before, samples, policy, same_judge=cell.judge != "refused", proven=entry["proven"]
            )
        if entry["status"] not in allowed:
            found.append(
                f"{entry['metric']} against the baseline is {entry['status']}; by rule {allowed}: {entry['reason']}"
            )
        statuses.append(min(allowed))
    if len(reported) != len(policy.max_drop) + (policy.new_failures is not None):
        found.append(f"{len(reported)} comparisons with the baseline")
    return statuses


def check_evidence(document: Any, gate: Gate) -> list[str]:
    """PASS only if every gated metric has evidence for enough of what applies."""
    if document["verdict"] != "PASS":
        return []
    found = []
    for said in document["datasets"][0]["thresholds"]:
        if said["status"] == "NOT_GATED":
            continue
        lacking = sum(said["notApplicableCauses"].get(cause, 0) for cause in ("reply", "judge"))
        enough = said["scored"] and said["scored"] >= (gate.policy.min_coverage or 0.0) * said["expected"]
        allowed = 1.0 if gate.policy.max_not_applicable is None else gate.policy.max_not_applicable
        if not enough or lacking > max(1, allowed * (said["expected"] + lacking)):
            found.append(f"PASS on too little: {said}")
    return found
