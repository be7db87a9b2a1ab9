"""Every block of sh and Python in the how-to guides runs, page by page and in order."""

import pytest

from shell_pages import GOLD_SET, SHOP, SHOWN, Page, list_pages, run_page

ACCEPTED = f"""\
{GOLD_SET}
evalspec gold review refund confirm --as ben
evalspec gold review refund confirm --as cleo
"""
MANY_TRIPLES = """\
mkdir -p gold/rfp/triples
echo '{name: rfp, people: {ada: {email: ada@example.com}, ben: {}, cleo: {}}}' > gold/rfp/set.yaml
for n in $(seq 200); do
  echo "{question: What is $n?, expected_answer: Paris, expected_block: {block_id: b$n}, metadata: {source: public,
    added_by: ada, reviewed_by: [ben, cleo], resolution: consensus}}" > gold/rfp/triples/t$n.yaml
done
sed -i 's/rag-quality, path: .file:evals.rag.jsonl/rfp, path: $file:gold\\/rfp/' agent.yaml
"""
NINE_AGENTS = """
from pathlib import Path

import evalspec

manifest = Path("agent.yaml").read_text()
for version in range(9):
    Path("nine.yaml").write_text(manifest.replace("{name: shop}", f"{{name: shop, version: v{version}}}"))
    known = lambda question: "Paris" if int(question.split()[-1].rstrip("?")) % 11 > version else "?"
    evalspec.evaluate("nine.yaml", agent=known, datasets=["rfp"])
"""
EVALUATED = "evalspec evaluate agent.yaml"
EXPORTING = """\
sed -i 's|  evaluation:|&\\n    exports: {otel: {url: "http://localhost:4000"}}|' agent.yaml
"""
FOREIGN = "tests/datasets/foreign"
THIRTY_QUESTIONS = """
mkdir ../thirty
cd ../thirty
for number in $(seq 30); do
  printf '{"id": "q%02d", "input": "Question %d", "expected": "right"}\\n' $number $number
done > questions.jsonl
echo 'def answer(question): return "wrong" if int(question.split()[1]) in {3, 8, 12, 17, 21, 26} else "right"' > bot.py
cat > agent.yaml <<'END_OF_FILE'
apiVersion: agentspec.io/v1
kind: AgentSpec
metadata: {name: bot}
spec:
  api: {python: "bot:answer"}
  evaluation:
    datasets: [{name: questions, path: $file:questions.jsonl, metrics: [exact_match]}]
    thresholds: {exact_match: 0.75}
    ciGate: {baseline: main, maxDrop: 0.02}
END_OF_FILE
evalspec evaluate agent.yaml || evalspec runs promote latest --as main
"""
CAPITALS = """
mkdir ../capitals
cd ../capitals
while read id place city; do
  printf '{"id": "%s", "input": "What is the capital of %s?", "expected": "%s"}\\n' $id $place $city
done > accuracy.jsonl <<'END_OF_FILE'
france France Paris
spain Spain Madrid
norway Norway Oslo
italy Italy Rome
END_OF_FILE
echo 'def answer(question):
    return "Barcelona is the largest city that I know of." if "Spain" in question else "Paris, Oslo, Rome."' > bot.py
cat > agent.yaml <<'END_OF_FILE'
apiVersion: agentspec.io/v1
kind: AgentSpec
metadata: {name: bot}
spec:
  api: {python: "bot:answer"}
  evaluation:
    datasets: [{name: accuracy, path: $file:accuracy.jsonl, metrics: [string_match]}]
    thresholds: {string_match: 0.9}
    ciGate: true
END_OF_FILE
"""
TALK = """
python > talk.jsonl <<'END_OF_FILE'
for n in range(60):
    print('{"id": "s%d", "input": "Question %d?", "expected": "Yes."}' % (n, n))
END_OF_FILE
for day in 0 3; do
  python > replies$day.jsonl <<END_OF_FILE
for n in range(60):
    grade = "rude" if n >= 45 + $day else "kind"
    print('{"id": "s%d", "response": "Reply %d of day $day. [grade: %s]"}' % (n, n, grade))
END_OF_FILE
done
cat > agent.yaml <<'END_OF_FILE'
apiVersion: agentspec.io/v1
kind: AgentSpec
metadata: {name: bot}
spec:
  evaluation:
    judge: {model: m, baseUrl: $env:OPENAI_BASE_URL}
    datasets:
      - name: talk
        path: $file:talk.jsonl
        metrics: [{name: tone, rubric: Is it kind?, labels: {kind: 1, rude: 0}}]
    thresholds: {tone: 0.7}
    ciGate: false
END_OF_FILE
evalspec evaluate agent.yaml --responses replies0.jsonl
"""
LABELLED_TALK = f"""{TALK}
python > labels.jsonl <<END_OF_FILE
import json
for n in range(10, 60):
    print(json.dumps({{
        "run": "$(evalspec runs list --json | jq -r '.runs[0].runId')", "dataset": "talk", "sample": "s%d" % n,
        "metric": "tone", "verdict": "rated", "value": float(n < 43 or n == 50), "labeller": "ada", "isBlind": True,
        "draw": {{"kind": "random", "seed": 1, "probability": 50 / 60, "place": n - 9}},
    }}))
END_OF_FILE
evalspec labels import labels.jsonl
"""
DRAWN_TALK = f"""{TALK}
python <<END_OF_FILE
from pathlib import Path

from evalspec import labels
from evalspec.curation.labels.drawing import LabelDesign
from evalspec.curation.labels.drawn_session import DrawnSession
from evalspec.runs.store.run_store import RunStore

run = labels.LabelledRun(RunStore(Path(".evalspec")), "latest")
session = DrawnSession(run, "ada", LabelDesign("tone", size=50))
while (case := session.open()) is not None:
    number = int(case.sample[1:])
    session.record(case, "rated", value=float(number < 43 or number == 50))
END_OF_FILE
cp replies0.jsonl replies.jsonl
sed -i 's/tone: 0.7/tone: 0.5/; s/ciGate: false/ciGate: {{judge: require}}/' agent.yaml
git init -q .
git add talk.jsonl replies.jsonl
"""
STORES = """
cat > like.py <<'END_OF_FILE'
import fnmatch

IDS = set()


class Store:
    def ingest(self, documents, scope_prefix):
        IDS.update(document.id for document in documents)

    def delete(self, scope_prefix):
        IDS.difference_update(fnmatch.filter(IDS, scope_prefix.replace("_", "?") + "*"))

    def search(self, request):
        return [name for name in IDS if name.startswith(request.scope_prefix)]
END_OF_FILE
cat > stores.yaml <<'END_OF_FILE'
apiVersion: agentspec.io/v1
kind: AgentSpec
metadata: {name: stores}
spec:
  evaluation:
    retrievers:
      mine: {python: "like:Store"}
      service:
        http:
          url: "http://localhost:8932"
          search: {path: /search, request: {query: "{{query}}"}, response: {ids: "$.hits[*].id"}}
          ingest: {path: /ingest, batchSize: 10, request: {documents: "{{documents}}"}}
          delete: {path: /delete, request: {prefix: "{{scopePrefix}}"}}
    datasets: [{name: support-faq, path: $file:support-faq.unrag.json, retriever: service, metrics: [nDCG@10]}]
END_OF_FILE
"""
PAGES = {
    "docs/how-to/traces.md": Page({".": "examples/traced"}),
    "docs/how-to/agents-that-act.md": Page({".": "examples/acting"}, is_printed=True),
    "docs/how-to/ci.md": Page(SHOP, EVALUATED, stand_ins=("agent",)),
    "docs/how-to/exports.md": Page(SHOP, EXPORTING, stand_ins=("agent",)),
    "docs/how-to/gold-permission.md": Page(SHOP, ACCEPTED, stand_ins=("agent",)),
    "docs/how-to/gold-quality.md": Page(before=GOLD_SET),
    "docs/how-to/gold-slices.md": Page(
        SHOP,
        MANY_TRIPLES,
        stand_ins=("agent",),
        prints={
            1: "evalspec report",
            2: f"python -c '{NINE_AGENTS}'\nevalspec gold slice --show 2026Q4",
            3: "evalspec runs prune --keep 1\nevalspec gold slice --show 2026Q4",
        },
        other_numbers=(1, 2, 3),
    ),
    "docs/how-to/judge-calibration.md": Page(
        before=LABELLED_TALK,
        filled={"replies.jsonl": "replies3.jsonl"},
        stand_ins=("judge",),
        is_printed=True,
    ),
    "docs/how-to/judges.md": Page(
        SHOP,
        filled={"https://api.openai.com/v1": "$OPENAI_BASE_URL"},
        stand_ins=("agent", "judge without models"),
        prints={
            2: "sed -i 's/string_match, Recall@5/faithfulness/' agent.yaml\n"
            'sed -i "s|  evaluation:|&\\n    judge: {model: gpt-4o-mini, baseUrl: $OPENAI_BASE_URL}|" agent.yaml\n'
            "unset OPENAI_BASE_URL\n"
            "evalspec evaluate agent.yaml --dataset rag-quality --json |\n"
            "jq -r '.datasets[].samples[].scores.faithfulness.reason'"
        },
    ),
    "docs/how-to/labels-in-ci.md": Page(
        before=DRAWN_TALK,
        stand_ins=("judge",),
        is_printed=True,
    ),
    "docs/how-to/labels.md": Page(keys=(("q", "left; to resume: "),), is_printed=True),
    "docs/how-to/migrating-from-deepeval.md": Page({"goldens.json": f"{FOREIGN}/deepeval.json"}),
    "docs/how-to/migrating-from-openai-evals.md": Page({"run.jsonl": f"{FOREIGN}/openai-evals-run.jsonl"}),
    "docs/how-to/migrating-from-promptfoo.md": Page({"promptfooconfig.yaml": f"{FOREIGN}/promptfoo.yaml"}),
    "docs/how-to/migrating-from-ragas.md": Page({"results.jsonl": f"{FOREIGN}/ragas.jsonl"}),
    "docs/how-to/own-agent.md": SHOWN._replace(stand_ins=("agent",)),
    "docs/how-to/production-traces.md": Page({"traces": "tests/traces/collector"}, is_printed=True, has_manifest=True),
    "docs/how-to/pytest.md": Page(
        SHOP,
        CAPITALS,
        stand_ins=("judge",),
        prints={1: "cd ../capitals; python -m pytest -p no:cacheprovider agent.yaml"},
    ),
    "docs/how-to/ray.md": Page(SHOP, stand_ins=("agent",)),
    "docs/how-to/recipes.md": Page(python="tests/pages/test_recipes.py"),
    "docs/how-to/retrievers.md": Page(
        {"support-faq.unrag.json": "evals/support-faq.unrag.json"},
        STORES,
        stand_ins=("full store",),
        is_printed=True,
        prints={
            3: "evalspec retrievers check mine stores.yaml",
            6: "mv stores.yaml agent.yaml; evalspec evaluate agent.yaml",
        },
        other_numbers=(3, 6),
    ),
    "docs/how-to/sample-size.md": Page(
        SHOP,
        f"{EVALUATED}\n{THIRTY_QUESTIONS}",
        stand_ins=("agent",),
        prints={
            1: "cd ../thirty; evalspec plan agent.yaml",
            2: "cd ../thirty; sed -i 1,10d questions.jsonl; evalspec plan agent.yaml",
        },
    ),
    "docs/how-to/shards.md": Page(SHOP, stand_ins=("agent",)),
    "docs/how-to/untrusted.md": Page({"theirs": SHOP["."]}, stand_ins=("agent",)),
}


@pytest.mark.parametrize(("page", "needs"), list_pages(PAGES, lambda name: name.startswith("docs/how-to/")))
def test_the_blocks_of_the_page_run(page, needs, tmp_path, monkeypatch):
    run_page(page, needs, tmp_path, monkeypatch)
