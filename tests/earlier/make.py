"""Writes tests/earlier/layout_2: a project with runs, reports and a baseline in the form that evalspec writes today.

    PYTHONPATH=tests .venv/bin/python -m earlier.make FOLDER

The stored folder is never written again: it stands for what users have on their disks. Once a later version stores
another form, write that beside it, into a folder of its own.
"""

import json
import os
import sys
from pathlib import Path
from typing import Any

from evalspec.cli.main import run
from servers.faulty_agent import FaultyAgent
from servers.scripted_judge import ScriptedJudge

AGENT = {
    "chatEndpoint": {
        "protocol": "custom",
        "request": {"message": "{{input}}"},
        "response": {"answer": "$.response", "contexts": "$.contexts[*].text", "contextIds": "$.contexts[*].id"},
        "maxRetries": 0,
    },
    "headers": {"X-Tenant": "$env:TENANT"},
}
EVALUATION: dict[str, Any] = {
    "judge": {"model": "scripted", "apiKey": "$env:OPENAI_API_KEY"},
    "retrievers": {"words": {"python": "search:Words", "topK": 3}},
    "datasets": [
        {
            "name": "qa",
            "path": "$file:qa.jsonl",
            "metrics": ["string_match", "faithfulness", "Recall@1", "nDCG@3"],
            "thresholds": {
                "string_match": [0.5, {"min": 0.9, "slice": "kind=capital"}],
                "Recall@1": {"min": 0.2, "stat": "p90"},
                "faithfulness": {"min": 0.5},
            },
        },
        {
            "name": "tone",
            "path": "$file:tone.jsonl",
            "metrics": ["toxicity", {"name": "short", "scorer": "scorer:short"}],
        },
        {
            "name": "pages",
            "path": "$file:pages.jsonl",
            "retriever": "words",
            "mode": "retrieve+rerank",
            "metrics": ["nDCG@3", "Recall@3", "gain.nDCG@3"],
            "thresholds": {"retrieved.nDCG@3": 0.1, "nDCG@3": {"min": 0.1, "stat": "median"}},
        },
    ],
    "thresholds": {"toxicity": 0.8, "latency_p95": {"max": 600_000}, "error_rate": {"max": 0.5}},
    "ciGate": {"minPassRate": 0.1},
}
SCORER = """
def short(sample):
    return 1.0 if len(sample.response) < 40 else 0.0
"""
SEARCH = """
PAGES = {"p1": "Paris is the capital of France.", "p2": "Oslo is in Norway.", "p3": "Rome has seven hills.",
         "p4": "The Seine runs through Paris."}


class Words:
    def _rank(self, query, ids):
        words = set(query.lower().rstrip("?").split())
        return sorted(ids, key=lambda one: -len(words & set(PAGES[one].lower().rstrip(".").split())))

    def search(self, request):
        return [{"id": one, "score": 1 / rank, "text": PAGES[one]} for rank, one in enumerate(reversed(list(PAGES)), 1)]

    def rerank(self, query, hits, top_k):
        by_id = {hit.id: hit for hit in hits}
        return [by_id[one] for one in self._rank(query, list(by_id))][:top_k]
"""
CITIES = {"France": "Paris", "Norway": "Oslo", "Italy": "Rome", "Spain": "Madrid", "Greece": "Athens", "Peru": "Lima"}


ANSWERS = dict(CITIES)
"""Of the agent: Spain's is changed for the second run."""


def answer(body: dict[str, Any]) -> dict[str, Any]:
    """Nothing that can be read for Peru; else the capital, with the tenant's name in answer and context."""
    question = body["message"]
    if "Peru" in question:
        return {"detail": "unknown"}
    city = next((city for place, city in ANSWERS.items() if place in question), "I hate that")
    contexts = [{"id": f"d-{city}", "text": f"{city} is the capital; asked by billing-7."}, {"id": "d-x", "text": "…"}]
    return {"response": f"{city} is the capital, says billing-7.", "contexts": contexts}


def write_project(folder: Path, agent_url: str, judge_url: str) -> None:
    """The manifest, datasets and modules."""
    qa = [
        {
            "id": place.lower(),
            "input": f"What is the capital of {place}?",
            "expected": city,
            "relevant": {f"d-{city}": 2, "d-y": 1},
            "tags": ["eu"] if place != "Peru" else [],
            "metadata": {"kind": "capital", "cluster": place[0]},
        }
        for place, city in CITIES.items()
    ]
    qa.append(
        {
            "id": "who",
            "input": "Who asks?\u202e",
            "expected": "billing-7",
            "relevant": ["d-x"],
            "metadata": {"kind": "other"},
        }
    )
    tone = [{"id": f"t{n}", "input": text, "expected": "-"} for n, text in enumerate(("Say it to France", "Insult me"))]
    pages = [
        {"id": "seine", "input": "Which river runs through Paris?", "relevant": ["p4"], "tags": ["river"]},
        {"id": "hills", "input": "Where are seven hills?", "relevant": ["p3"]},
        {"id": "none", "input": "Who won?", "relevant": []},
    ]
    pages = [{"expected": ""} | line for line in pages]
    for name, lines in (("qa", qa), ("tone", tone), ("pages", pages)):
        (folder / f"{name}.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    (folder / "scorer.py").write_text(SCORER.lstrip())
    (folder / "search.py").write_text(SEARCH.lstrip())
    EVALUATION["judge"]["baseUrl"] = judge_url
    spec = {"api": AGENT | {"url": agent_url}, "evaluation": EVALUATION}
    manifest = {"apiVersion": "agentspec.io/v1", "kind": "AgentSpec", "metadata": {"name": "bot"}, "spec": spec}
    (folder / "agent.yaml").write_text(json.dumps(manifest, indent=2))


def main(folder: Path) -> None:
    """Write the project, and what evalspec makes of it."""
    folder.mkdir(parents=True)
    os.chdir(folder)
    os.environ |= {"TENANT": "billing-7", "OPENAI_API_KEY": "sk-scripted-key-000"}
    with FaultyAgent() as agent, ScriptedJudge(api_key="sk-scripted-key-000") as judge:
        agent.reply = answer
        write_project(folder, agent.url, judge.url)
        run(["evaluate", "agent.yaml", "--repeat", "2"])
        run(["runs", "label", "latest", "first"])
        run(["runs", "promote", "first", "--as", "main"])
        ANSWERS["Spain"] = "Lisbon"
        EVALUATION["ciGate"] = {"minPassRate": 0.1, "baseline": "main"}
        write_project(folder, agent.url, judge.url)
        run(["evaluate", "agent.yaml", "--repeat", "2"])
        run(["compare", "first", "latest", "-o", "compared.json"])
    Path(".evalspec").rename("store")  # under a name that git does not ignore


if __name__ == "__main__":
    main(Path(sys.argv[1]).absolute())
