"""The cells of the matrix: every pair of levels of the five factors, and every triple of the main faults and gates.

The larger matrix, FAULTS=all, has every triple of agent fault, judge fault and gate.
"""

import random
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from itertools import combinations, product
from typing import Any, NamedTuple

from faults.injected import AGENT_FAULTS, JUDGE_FAULTS, SAMPLES, SHARES
from faults.rules import Limit, Policy

_TRIES = 12
"""Random completions of a cell, of which the one that covers most is taken."""


@dataclass(frozen=True)
class Gate:
    """One way to set the gate. `arguments`: of the command line. `only_first`: the agent fails in the first attempt."""

    limits: tuple[Limit, ...]
    policy: Policy = field(default_factory=Policy)
    arguments: tuple[str, ...] = ()
    attempts: int = 1
    only_first: bool = False

    @property
    def has_baseline(self) -> bool:
        return self.policy.max_drop is not None

    @property
    def no_judge(self) -> bool:
        return "--no-judge" in self.arguments


FAITHFUL, MATCHES = Limit("faithfulness", min=0.65), Limit("string_match", min=0.8)
FAST, CHEAP = Limit("latency_p95", max=60_000), Limit("tokens_mean", max=100)
LENIENT: dict[str, Any] = {"min_coverage": 0.5, "max_error_rate": 0.5}
NO_JUDGE, TWICE = ("--no-judge",), ("--repeat", "2")
GATES: Mapping[str, Gate] = {
    "faithfulness": Gate((FAITHFUL,)),
    "several": Gate(
        (FAITHFUL, Limit("hallucination", max=0.4), MATCHES, FAST, CHEAP, Limit("truncated_rate", max=0.2))
    ),
    "beyond reach": Gate(
        (Limit("faithfulness", min=0.9), Limit("latency_p95", max=0.001), Limit("tokens_mean", min=1000))
    ),
    "error_rate": Gate((Limit("error_rate", max=0.2),), Policy(max_error_rate=1.0)),
    "slices": Gate(
        (
            Limit("faithfulness", min=0.9, slice="parity=even"),
            Limit("hallucination", max=0.5, slice="parity=odd"),
            Limit("faithfulness", min=0.4, stat="min"),
        )
    ),
    "minCoverage": Gate((FAITHFUL, MATCHES), Policy(**LENIENT)),
    "maxErrorRate": Gate((Limit("string_match", min=0.5),), Policy(min_coverage=0.5, max_error_rate=0.125)),
    "maxNotApplicable 0": Gate((FAITHFUL, CHEAP), Policy(max_not_applicable=0.0)),
    "maxNotApplicable 0.5": Gate((FAITHFUL, CHEAP), Policy(max_not_applicable=0.5)),
    "minSamples": Gate((FAITHFUL, MATCHES), Policy(min_samples=6, **LENIENT)),
    "minPassRate": Gate((Limit("faithfulness", min=0.4),), Policy(min_pass_rate=1.0)),
    "minPassRate of a slice": Gate(
        (Limit("faithfulness", min=0.4, slice="parity=even"),), Policy(min_pass_rate=0.5, max_error_rate=1.0)
    ),
    "minPassRate twice": Gate(
        (Limit("faithfulness", min=0.4),), Policy(min_pass_rate=0.5, max_error_rate=0.5), TWICE, 2, only_first=True
    ),
    "confidence": Gate((Limit("faithfulness", min=0.3),), Policy(confidence=0.9)),
    "ciGate false": Gate((FAITHFUL,), Policy(enabled=False)),
    "--no-judge": Gate((FAITHFUL, MATCHES), arguments=NO_JUDGE),
    "--no-judge alone": Gate((FAITHFUL,), arguments=NO_JUDGE),
    "--repeat 2": Gate((FAITHFUL, MATCHES, FAST), arguments=TWICE, attempts=2),
    "--repeat 2 flaky": Gate((FAITHFUL, CHEAP), Policy(**LENIENT), TWICE, 2, only_first=True),
    "baseline any drop": Gate((), Policy(max_drop={"faithfulness": 0.1, "string_match": 0.1}, alpha=None)),
    "baseline drop": Gate((), Policy(max_drop={"faithfulness": 0.1}, **LENIENT)),
    "baseline notWorse": Gate((), Policy(max_drop={"faithfulness": 0.9}, not_worse=True)),
    "baseline newFailures": Gate(
        (Limit("faithfulness", min=0.4),), Policy(max_drop={"tokens_mean": 1000.0}, new_failures=0), TWICE, 2
    ),
}

MAIN_AGENT = ("none", "http_500", "empty", "contexts_empty", "invented")
MAIN_JUDGE = ("none", "prose", "wrong_count", "no_statements")
MAIN_GATES = ("faithfulness", "minCoverage", "maxNotApplicable 0")
RARE_JUDGE = ("empty", "fenced", "malformed", "no_choices", "parts", "prose_once", "restyled")
"""Variants of other faults: only in the larger matrix."""


class Cell(NamedTuple):
    """One combination: names in AGENT_FAULTS, SHARES, JUDGE_FAULTS, SHARES and GATES."""

    agent: str
    agent_share: str
    judge: str
    judge_share: str
    gate: str

    @property
    def agent_hit(self) -> int:
        """How many samples the agent's fault hits."""
        return 0 if self.agent == "none" else SHARES[self.agent_share]

    @property
    def judge_hit(self) -> int:
        """How many samples the judge's fault hits."""
        whole = JUDGE_FAULTS[self.judge].whole
        return 0 if self.judge == "none" else SAMPLES if whole else SHARES[self.judge_share]


_AGENT, _JUDGE, _GATE = 0, 2, 4
Levels = tuple[tuple[int, str], ...]
"""Some (factor, level) of a cell; factors are places in Cell."""


def list_factors(*, full: bool) -> list[list[str]]:
    """The levels of each factor."""
    judge = [name for name in JUDGE_FAULTS if full or name not in RARE_JUDGE]
    return [list(AGENT_FAULTS), list(SHARES), judge, list(SHARES), list(GATES)]


def wanted_levels(*, full: bool) -> set[Levels]:
    """What must be covered. A judge that is not asked has no fault."""
    factors = list_factors(full=full)
    wanted = {
        ((one, first), (other, second))
        for one, other in combinations(range(len(factors)), 2)
        for first, second in product(factors[one], factors[other])
        if not (one == _JUDGE and other == _GATE and GATES[second].no_judge)
    }
    levels = (AGENT_FAULTS, JUDGE_FAULTS, GATES) if full else (MAIN_AGENT, MAIN_JUDGE, MAIN_GATES)
    return wanted | {((_AGENT, a), (_JUDGE, j), (_GATE, g)) for a, j, g in product(*levels)}


def generate(*, full: bool = False, seed: int = 0) -> list[Cell]:
    """A covering array, the same for the same seed. Greedy: each cell is built around a tuple that is still uncovered,
    and of several completions the one that covers most is taken."""
    chance, factors = random.Random(seed), list_factors(full=full)
    order = sorted(wanted_levels(full=full), key=lambda found: (-len(found), found))
    left = dict.fromkeys(order)
    cells = []
    while left:
        kernel = dict(next(iter(left)))
        tries = [
            Cell(*(kernel.get(n) or chance.choice(levels) for n, levels in enumerate(factors))) for _ in range(_TRIES)
        ]
        best = max(tries, key=lambda cell: sum(found in left for found in _levels_of(cell)))
        for found in _levels_of(best):
            left.pop(found, None)
        cells.append(best)
    return cells


def _levels_of(cell: Cell) -> Iterable[Levels]:
    levels = list(enumerate(cell))
    yield from combinations(levels, 2)
    yield levels[_AGENT], levels[_JUDGE], levels[_GATE]


def to_manifest(limits: Iterable[Limit]) -> dict[str, list[dict[str, Any]]]:
    """`thresholds`."""
    found: dict[str, list[dict[str, Any]]] = {}
    for limit in limits:
        keys = {"min": limit.min, "max": limit.max, "slice": limit.slice, "stat": limit.stat}
        found.setdefault(limit.metric, []).append({key: value for key, value in keys.items() if value is not None})
    return found


def to_ci_gate(policy: Policy) -> Any:
    """`ciGate`, with only what differs from the defaults."""
    if not policy.enabled:
        return False
    names = {
        "min_coverage": "minCoverage",
        "max_error_rate": "maxErrorRate",
        "max_not_applicable": "maxNotApplicable",
        "min_samples": "minSamples",
        "min_pass_rate": "minPassRate",
        "confidence": "confidence",
        "max_drop": "maxDrop",
        "alpha": "alpha",
        "new_failures": "newFailures",
    }
    default = Policy()
    gate = {
        key: getattr(policy, name) for name, key in names.items() if getattr(policy, name) != getattr(default, name)
    }
    if policy.max_drop is not None:
        gate["baseline"] = "main"
    if policy.not_worse:
        gate["regression"] = "notWorse"
    return gate or True
