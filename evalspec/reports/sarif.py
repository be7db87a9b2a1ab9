"""The report for code scanning: SARIF 2.1.0, with findings at files and lines of datasets.

Level error: breaks a limit. Level warning: could not be measured. Level note: either, in a run that exits with 0.
"""

import json
from collections.abc import Iterable
from hashlib import sha256
from pathlib import PurePosixPath
from typing import Any
from urllib.parse import quote

from evalspec import __version__
from evalspec.base.errors import ExitCode
from evalspec.base.foreign_text import cut, visible
from evalspec.model import Run
from evalspec.reports.base import Reporter
from evalspec.reports.findings import NEW_FAILURES, NO_REPLY, VERDICT, Finding, list_demonstrations, list_findings

_SCHEMA = "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"
_MOST_RESULTS = 25_000
"""GitHub rejects runs with more results."""
_LONGEST_MESSAGE = 1_000
_MANIFEST = "agent.yaml"
_RULES = {
    NO_REPLY: "The agent gave no usable reply to a sample.",
    NEW_FAILURES: "More samples fail that passed in the baseline than the gate allows.",
    VERDICT: "The run does not pass, for a reason that no single limit gives.",
}
_LEVELS = "error: beyond a limit that is broken; warning: could not be measured; note: tolerated, the run exits with 0."


def render_sarif(run: Run) -> str:
    """Return one SARIF run with a rule for each metric. The worst results come first. Omitted results are counted."""
    findings = list_findings(run)
    metrics = dict.fromkeys(metric for dataset in run.datasets for metric in dataset.metrics)
    rules = list(dict.fromkeys([*metrics, *_RULES, *(finding.rule for finding in findings)]))
    indexes = {rule: index for index, rule in enumerate(rules)}
    manifest = (run.fingerprint.manifest and run.fingerprint.manifest.path) or _MANIFEST
    document = {
        "$schema": _SCHEMA,
        "version": "2.1.0",
        "runs": [
            {
                "tool": {
                    "driver": {"name": "evalspec", "version": __version__, "rules": [_rule(rule) for rule in rules]}
                },
                "automationDetails": {"id": _category(run) + visible(run.id)},
                "invocations": [_invocation(run, len(findings) - _MOST_RESULTS)],
                "results": [_result(finding, indexes, manifest) for finding in findings[:_MOST_RESULTS]],
            }
        ],
    }
    return json.dumps(document, ensure_ascii=False, allow_nan=False, indent=1) + "\n"


def _category(run: Run) -> str:
    """Return a category that separates the alerts of several agents in one repository."""
    name = run.fingerprint.agent_name
    return f"evalspec/{quote(visible(name), safe='')}/" if name else "evalspec/"


def _rule(rule: str) -> dict[str, Any]:
    says = _RULES.get(rule, f"{visible(rule)} is beyond a limit of the gate, or could not be measured.")
    return {
        "id": visible(rule),
        "shortDescription": {"text": cut(says, _LONGEST_MESSAGE)},
        "fullDescription": {"text": cut(says, _LONGEST_MESSAGE)},
        "help": {"text": _LEVELS},
    }


def _invocation(run: Run, left_out: int) -> dict[str, Any]:
    measurement = [f"measurement: {change.render()}" for change in run.measurement]
    notes = [*list_demonstrations(run), *run.reasons, *measurement, *run.notes]
    notes += [f"{left_out:,} more results were omitted"] if left_out > 0 else []
    return {
        "executionSuccessful": run.exit_code in (ExitCode.OK, ExitCode.GATE_FAILED),
        "exitCode": int(run.exit_code),
        "exitCodeDescription": run.verdict_text,
        "toolExecutionNotifications": list(_notifications(notes)),
    }


def _notifications(texts: Iterable[str]) -> Iterable[dict[str, Any]]:
    for text in texts:
        yield {"level": "note", "message": {"text": _message(text)}}


def _result(finding: Finding, indexes: dict[str, int], manifest: str) -> dict[str, Any]:
    """Return a finding. One about no file is at the manifest, because GitHub rejects results without a location."""
    sample = finding.sample
    place: dict[str, Any] = {"artifactLocation": {"uri": _uri(finding.file or manifest)}}
    if finding.file and sample and sample.line:
        place["region"] = {"startLine": sample.line}
    return {
        "ruleId": visible(finding.rule),
        "ruleIndex": indexes[finding.rule],
        "level": str(finding.level),
        "message": {"text": _message(f"{finding.title}: {finding.message}")},
        "partialFingerprints": _fingerprints(finding),
        "locations": [{"physicalLocation": place}],
    }


def _fingerprints(finding: Finding) -> dict[str, str]:
    """Return fingerprints of a finding without values and line numbers, which change from run to run.

    Code scanning matches findings by `primaryLocationLineHash`. GitHub's upload action computes it from the text of the
    line, and warns if it differs from ours. Without a line it computes none, and uses ours.
    """
    identity = [finding.dataset, finding.sample.id if finding.sample else None, finding.rule, finding.scope]
    digest = sha256(json.dumps(identity).encode()).hexdigest()[:32]
    known = bool(finding.sample and finding.sample.line)
    return {"evalspecFinding/v1": digest} | ({} if known else {"primaryLocationLineHash": digest})


def _uri(file: str) -> str:
    """Return a path as a relative URI, or as a file URI if it is absolute."""
    return PurePosixPath(file).as_uri() if file.startswith("/") else quote(visible(file))


def _message(text: str) -> str:
    """Return untrusted text for a message, with `[text](target)` escaped, which would be a link."""
    return cut(visible(text), _LONGEST_MESSAGE).replace("](", "]\\(")


SARIF = Reporter("sarif", (".sarif", ".sarif.json"), lambda run, _exchanges: render_sarif(run))
