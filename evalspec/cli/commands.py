"""Names and summaries of the commands. `evalspec --help` imports only this module, so it is fast."""

VARIABLE = "_EVALSPEC_COMPLETE"
"""The environment variable by which a shell asks for completions."""

COMMANDS = {
    "init": "Create an agent.yaml, datasets and a CI workflow.",
    "connect": "Ask an agent behind HTTP a question, and write its agent.yaml.",
    "validate": "Check a manifest and its datasets without calling anything.",
    "plan": "Show a run's calls and the drop that it can detect; call nothing.",
    "requirements": "Print the packages that a manifest needs, for pip.",
    "doctor": "Ask agent, judge and embeddings one question, and check disk.",
    "evaluate": "Query the agent, score its replies, and check the gate.",
    "merge": "Join the shards of a run, and check the gate once over all.",
    "traces": "Check which OpenTelemetry spans of the agent arrive.",
    "rescore": "Score stored replies with other metrics, thresholds or judge.",
    "show": "Show one sample of a stored run: texts, scores and reasons.",
    "report": "Show a stored run again, in any report format.",
    "compare": "Compare runs, and test whether the differences exceed noise.",
    "runs": "List, name, promote, push, pull, verify and remove runs.",
    "cache": "Show and empty the cache of the judge's results.",
    "label": "Judge the replies and scores of a stored run yourself.",
    "labels": "List, export, import and compare what people say about a run.",
    "judge": "Compare the judge of a run with people, and with itself.",
    "score": "Compute retrieval metrics from ground truth and run files.",
    "gold": "Curate a gold set: triples that people review, in files in git.",
    "metrics": "List the metrics with their inputs, direction, range and engine.",
    "retrievers": "Check that a retriever isolates scopes.",
    "convert": "Convert a dataset to another format.",
    "remap": "Carry ground truth over to a re-chunked corpus.",
    "serve": "Serve evaluations by REST, with tokens, jobs and workers.",
    "worker": "Execute the jobs of a server in another process.",
    "token": "Create, list and revoke tokens of the service.",
    "completion": "Print a script that completes commands in bash, zsh or fish.",
    "help": "Show the help of a command.",
    "schema": "Print the JSON Schema of manifest, dataset line or report.",
}

HELP = f"""\
Usage: evalspec COMMAND [OPTIONS] [ARGS]

  pytest for RAG agents: declare datasets, metrics and thresholds in agent.yaml,
  and gate CI on the results.

Commands:
{chr(10).join(f"  {name:<10}  {summary}" for name, summary in COMMANDS.items())}

Options:
  -V, --version  Print the version.
  -h, --help     Print this help; `evalspec COMMAND --help` has examples.

Exit codes:
  0    PASS, or not gated and something was measured
  1    the gate is on, and a metric fails its threshold or is worse than the
       baseline, or a sample is below minPassRate
  2    invalid usage, manifest or dataset, or no sample selected
  3    could not measure: agent or judge down, INCOMPLETE
  130  interrupted; results so far are kept

Start:
  evalspec init
  evalspec evaluate agent.yaml
"""
