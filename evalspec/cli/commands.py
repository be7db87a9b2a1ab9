"""The commands as data: enough for `evalspec --help`, which therefore imports nothing else."""

COMMANDS = {
    "init": "Write an agent.yaml, datasets and a CI workflow to start from.",
    "validate": "Report every error of a manifest and its datasets; calls nothing.",
    "plan": "Say what a run would call, and what drop it could detect; calls nothing.",
    "evaluate": "Ask the agent, score its replies, and say whether the gate passes.",
    "rescore": "Score the replies of a run again: other metrics, limits or judge; no agent.",
    "report": "Show a stored run again, in any form, gated by what it was held to.",
    "compare": "Hold runs against a baseline: what changed, and whether chance explains it.",
    "runs": "List, show, label and remove stored runs.",
    "score": "Compute retrieval metrics of a run against ground truth, from files; no manifest.",
    "metrics": "List the metrics: what each needs, its direction, range and engine.",
    "retrievers": "Check that a retriever keeps apart what it is told to delete.",
    "convert": "Write a dataset in another format; what that one cannot hold is refused or told.",
    "remap": "Carry the ground truth of a dataset over a re-chunking of its corpus.",
    "schema": "Print the JSON Schema of the manifest, a dataset line or the report.",
}

HELP = f"""\
Usage: evalspec COMMAND [OPTIONS] [ARGS]

  pytest for RAG agents: declare datasets, metrics and thresholds in agent.yaml;
  get numbers that can be trusted, and a CI verdict that cannot lie.

Commands:
{chr(10).join(f"  {name:<10} {summary}" for name, summary in COMMANDS.items())}

Options:
  -V, --version  Print the version.
  -h, --help     Print this; `evalspec COMMAND --help` says more, with examples.

Exit codes:
  0    PASS, or not gated and something was measured
  1    the gate is on, and a metric is beyond its threshold or worse than the
       baseline, or a sample is below minPassRate
  2    usage, manifest or dataset invalid; nothing selected
  3    could not measure: agent or judge down, INCOMPLETE
  130  interrupted; what was gathered is kept

Start:
  evalspec init
  evalspec evaluate agent.yaml
"""
