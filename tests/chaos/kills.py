"""One kill: a project, the command until it is killed with its process group, the command again, and what differs."""

import json
import shutil
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from random import Random
from typing import Any

from chaos.operations import EVALUATE, OPERATIONS, Operation, digest, digest_others
from servers.faulty_agent import FaultyAgent
from warm.command import LIBRARIES, Ended, WarmCommand

KNOWN = {
    "report.json: missing": "the log names the digest of the report before the report has its name: a run that is "
    "killed between the two and not resumed, but rescored again, is called damaged",
}
"""Defects that are known and not fixed yet, by what `runs verify` says. Best empty."""
_OVER = 1.1
"""Of the undisturbed run's time: some kills come when all is over."""


@dataclass(frozen=True)
class Undisturbed:
    """A run that nobody kills."""

    before: dict[str, Any]
    outputs: dict[str, Any]
    others: Any
    state: Any
    ended: Ended


@dataclass
class Bench:
    """Templates, the agent and the warm process."""

    folder: Path
    _known: dict[str, Undisturbed] = field(default_factory=dict)

    def __enter__(self) -> "Bench":
        self._agent = FaultyAgent()
        self._agent.__enter__()
        self._agent.reply = lambda body: {"response": "Lyon" if int(body["message"][1:]) % 3 == 0 else "in Paris"}
        self._agent.delay = 0.001
        self._evalspec = WarmCommand(self.folder, (*LIBRARIES, "rouge_score"))
        return self

    def __exit__(self, *_exception: object) -> None:
        self._evalspec.__exit__()
        self._agent.__exit__()

    def kill(self, name: str, number: int) -> list[str]:
        """Kill an operation at a moment of the number's choice, run it again, and list what differs."""
        operation, chance = OPERATIONS[name], Random(f"{name}:{number}")
        undisturbed = self._undisturbed(name)
        work = self._copy(name)
        killed = self._run_until(operation, work, chance, undisturbed)
        found = list(self._look(operation, work, undisturbed))
        again = operation.find_again(work, operation.command)
        ended = self._run(work, *again)
        if ended.code != undisturbed.ended.code:
            found.append(f"`{' '.join(again)}` ends with {ended.code}: {ended.err.decode()[:300]}")
        else:
            found += self._compare(operation, work, undisturbed)
        return [f"{name} {number} ({killed}): {one}" for one in found]

    def find_first_begun(self, name: str) -> set[str]:
        """What is in the folder of a run when a kill finds its description there, and could not a change earlier."""
        for change in count(1):
            work = self._copy(name)
            self._run(work, *OPERATIONS[name].command, kill_at=change)
            for description in work.glob(".evalspec/runs/*-*/run.json"):
                return {path.name for path in description.parent.iterdir()}
        raise AssertionError("it never ends")

    def _run_until(self, operation: Operation, work: Path, chance: Random, undisturbed: Undisturbed) -> str:
        """Half of the kills come before a change of a file, half at any time."""
        if chance.random() < 0.5:
            change = chance.randint(1, undisturbed.ended.changes)
            ended = self._run(work, *operation.command, kill_at=change)
            return f"before change {change} of {undisturbed.ended.changes}, code {ended.code}"
        seconds = chance.random() * undisturbed.ended.seconds * _OVER
        ended = self._run(work, *operation.command, seconds=seconds)
        return f"after {seconds:.3f} s of {undisturbed.ended.seconds:.3f}, code {ended.code}"

    def _look(self, operation: Operation, work: Path, undisturbed: Undisturbed) -> Iterator[str]:
        """What the kill left: every output is what it was, or what it becomes; the user's files are as they were."""
        for name in operation.outputs:
            if digest(work / name) not in (undisturbed.before[name], undisturbed.outputs[name]):
                yield f"{name} is neither as it was nor as it becomes after the kill"
        if digest_others(work, operation.outputs) != undisturbed.others:
            yield "files of the user are other after the kill"
        listed = self._run(work, "runs", "list", "--json")
        if listed.code != 0:
            yield f"runs list ends with {listed.code} after the kill: {_squeeze(listed)}"

    def _compare(self, operation: Operation, work: Path, undisturbed: Undisturbed) -> Iterator[str]:
        for name, content in undisturbed.outputs.items():
            if digest(work / name) != content:
                yield f"{name} differs in the end"
        if digest_others(work, operation.outputs) != undisturbed.others:
            yield "files of the user are other in the end"
        state = operation.read(work)
        if state != undisturbed.state:
            yield f"the end state differs: {_name_difference(undisturbed.state, state)}"
        verified = json.loads(self._run(work, "runs", "verify", "--all", "--json").out)
        damage = [
            line for run in verified["runs"] for line in run["damage"] if not any(known in line for known in KNOWN)
        ]
        if damage:
            yield f"runs verify in the end: {damage}"

    def _undisturbed(self, name: str) -> Undisturbed:
        if name not in self._known:
            operation, work = OPERATIONS[name], self._copy(name)
            before = {output: digest(work / output) for output in operation.outputs}
            others = digest_others(work, operation.outputs)
            counted = self._run(work, *operation.command, is_counted=True)
            assert counted.code in (0, 1), counted
            assert digest_others(work, operation.outputs) == others, "it changes what it should not"
            outputs = {output: digest(work / output) for output in operation.outputs}
            self._known[name] = Undisturbed(before, outputs, others, operation.read(work), counted)
        return self._known[name]

    def _copy(self, name: str) -> Path:
        template, work = self.folder / "templates" / name.replace(" ", "-"), self.folder / "work"
        if not template.exists():
            template.mkdir(parents=True)
            OPERATIONS[name].write(template)
            for command in OPERATIONS[name].made_by:
                if command == ("half",):
                    self._stop_halfway(template)
                else:
                    ended = self._run(template, *command)
                    assert ended.code in (0, 1), ended
        shutil.rmtree(work, ignore_errors=True)
        shutil.copytree(template, work, symlinks=True)
        return work

    def _stop_halfway(self, folder: Path) -> None:
        """Leave a run of which half is asked: what a kill leaves of its log is a beginning, with a torn line."""
        assert self._run(folder, *EVALUATE).code == 0
        (run,) = folder.glob(".evalspec/runs/*-*")
        log = (run / "samples.jsonl").read_bytes()
        (run / "samples.jsonl").write_bytes(log[: len(log) // 2])
        for path in (run / "report.json", folder / "scores.csv", run.with_name("latest")):
            path.unlink()

    def _run(self, folder: Path, *arguments: str, **how: Any) -> Ended:
        return self._evalspec(folder, *arguments, environment={"AGENT_URL": self._agent.url}, **how)


def _name_difference(wanted: Any, found: Any, place: str = "") -> str:
    if isinstance(wanted, dict) and isinstance(found, dict):
        for key in [*wanted, *(key for key in found if key not in wanted)]:
            if wanted.get(key) != found.get(key):
                return _name_difference(wanted.get(key), found.get(key), f"{place}/{key}")
    return f"{place}: {json.dumps(wanted, default=str)[:150]} became {json.dumps(found, default=str)[:150]}"


def _squeeze(ended: Ended) -> str:
    return " ".join((ended.out + ended.err).decode().split())[:400]
