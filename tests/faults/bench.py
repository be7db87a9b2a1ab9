"""Runs the cells of the matrix through the command line."""

from collections.abc import Mapping
from typing import Any

from faults.injected import AGENT_FAULTS, JUDGE_FAULTS, SAMPLES, TIMEOUT_SECONDS, InjectedAgent, InjectedJudge
from faults.matrix import GATES, Cell, Gate, to_ci_gate, to_manifest
from faults.rules import SampleScores, recount, score_samples

RESPONSE = {"answer": "$.response", "contexts": "$.contexts", "usage": "$.usage", "finishReason": "$.finish"}
HEALTHY = Cell("none", "all", "none", "all", "faithfulness")
"""Nothing is wrong."""


class Bench:
    """Runs cells, one after the other, in one project."""

    def __init__(self, project: Any, agent: InjectedAgent, judge: InjectedJudge, nobody: str) -> None:
        self.project, self.agent, self.judge, self.nobody = project, agent, judge, nobody
        self.answered: Mapping[int, int] = {}

    def run(self, cell: Cell) -> Any:
        """The outcome of one cell."""
        gate, fault = GATES[cell.gate], AGENT_FAULTS[cell.agent]
        self.judge.inject(JUDGE_FAULTS[cell.judge], cell.judge_hit)
        self.project.evaluation |= {
            "judge": {
                "model": "m",
                "baseUrl": self.nobody if cell.judge == "refused" else self.judge.url,
                "apiKey": "k",
                "maxRetries": 1,
            },
            "thresholds": to_manifest(gate.limits),
            "ciGate": to_ci_gate(gate.policy),
        }
        endpoint: dict[str, Any] = {"response": RESPONSE, "maxRetries": 2 if fault.once or fault.refuses else 0}
        if cell.agent == "timeout":
            endpoint["timeoutSeconds"] = TIMEOUT_SECONDS
        self.project.api = {"url": self.agent.url, "chatEndpoint": endpoint}
        if fault.refuses:
            return self._run_refused(cell, gate)
        self.agent.inject(fault, cell.agent_hit, only_first=gate.only_first)
        in_turn = ("-j", "1") if gate.only_first else ()  # otherwise the second attempt may arrive before the first
        outcome = self.project.evaluate("--json", *in_turn, *gate.arguments)
        self.answered = self.agent.answered
        return outcome

    def _run_refused(self, cell: Cell, gate: Gate) -> Any:
        """An agent of its own that stops listening before the last requests."""
        before = SAMPLES * gate.attempts - cell.agent_hit * (1 if cell.agent_share != "all" else gate.attempts)
        self.answered = dict.fromkeys(range(SAMPLES), 0)
        if before <= 0:
            self.project.api["url"] = self.nobody
            return self.project.evaluate("--json", *gate.arguments)
        with InjectedAgent() as agent:
            agent.inject(AGENT_FAULTS["none"], 0)
            agent.die_after = before
            self.project.api["url"] = agent.url
            outcome = self.project.evaluate("--json", "-j", "1", *gate.arguments)
        self.answered = agent.answered
        return outcome

    def promote(self, gate: str) -> None:
        """Make a run without faults the baseline."""
        self.run(HEALTHY._replace(gate=gate))
        assert self.project("runs", "promote", "latest", "--as", "main").code == 0

    def recount(self, cell: Cell) -> list[SampleScores]:
        """What the rules say of each sample of the cell that was run last."""
        gate = GATES[cell.gate]
        asked = recount(
            AGENT_FAULTS[cell.agent],
            cell.agent_hit,
            JUDGE_FAULTS[cell.judge],
            cell.judge_hit,
            attempts=gate.attempts,
            only_first=gate.only_first,
            answered=self.answered,
        )
        return score_samples(asked, no_judge=gate.no_judge)
