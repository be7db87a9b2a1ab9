"""Every block of sh and Python in the reference runs, page by page and in order."""

import pytest

from shell_pages import GOLD_SET, SHOP, SQUARES, Page, list_pages, run_page

POLL = 'curl "$API/plain/evaluations/${}" -H "$AUTH"'
COMPARE = 'curl "$API/evaluations/compare?baseline=$ID&candidate=$NEW" -H'
LABELLED = """\
mv retrievers.yaml agent.yaml
for label in bm25 dense hybrid; do
  evalspec evaluate agent.yaml
  evalspec runs label latest $label
done
evalspec runs promote latest --as main
"""
THRESHOLDS = """\
cat > thresholds.yaml <<'END_OF_FILE'
apiVersion: agentspec.io/v1
kind: AgentSpec
metadata: {name: capitals}
spec: {evaluation: {thresholds: {includes: {min: 0.5, confidence: 0.95}}, ciGate: true}}
END_OF_FILE
"""
FOREIGN_FILES = """\
evalspec convert evals/rag.jsonl autorag --to autorag --lossy
printf 'subject,solution\\nA refund?,In 14 days.\\n' > tickets.csv
"""
RERANKED = """
cat > rerank.py <<'END_OF_FILE'
import search


class Reranked:
    def search(self, request):
        return search.count_letters(request)

    def rerank(self, _query, documents, _top_k):
        return [document.id for document in sorted(documents, key=lambda one: one.id)]
END_OF_FILE
cat > agent.yaml <<'END_OF_FILE'
apiVersion: agentspec.io/v1
kind: AgentSpec
metadata: {name: shop}
spec:
  evaluation:
    retrievers: {pages: {python: "rerank:Reranked"}}
    datasets:
      - name: rag-quality
        path: $file:evals/rag.jsonl
        retriever: pages
        mode: retrieve+rerank
        metrics: [nDCG@5, Recall@5]
END_OF_FILE
"""
PAGES = {
    "docs/reference/compare.md": Page(
        {**SHOP, "logs": "tests/comparison/harness_logs"}, LABELLED + THRESHOLDS, stand_ins=("agent",)
    ),
    "docs/reference/datasets.md": Page(SHOP, stand_ins=("agent",)),
    "docs/reference/formats.md": Page(SHOP, FOREIGN_FILES),
    "docs/reference/library.md": Page(SHOP, GOLD_SET),
    "docs/reference/reports.md": Page(
        SHOP,
        "evalspec evaluate agent.yaml -o report.jsonl\nevalspec runs label latest main",
        stand_ins=("agent",),
        prints={
            3: "cp agent.yaml kept.yaml\n"
            "sed -i 's|url: .*|url: http://127.0.0.1:9|; s/name: shop/name: inkwharf-help/' agent.yaml\n"
            "evalspec evaluate agent.yaml --dataset rag-quality || mv kept.yaml agent.yaml"
        },
        other_numbers=(3,),
    ),
    "docs/reference/retrievers.md": Page(
        SHOP, RERANKED, prints={1: "evalspec evaluate agent.yaml"}, other_numbers=(1,)
    ),
    "docs/reference/manifest.md": Page(
        {**SHOP, **SQUARES},
        "sed -i 's|url:|command: [python, server.py]\\n    url:|; s/name: shop/name: lamp-shop/' agent.yaml",
        stand_ins=("agent",),
        prints={
            1: "evalspec evaluate agent.yaml",
            2: "cd ../squares; evalspec evaluate agent.yaml --repeat 4 -v",
        },
        other_numbers=(1,),
    ),
    "docs/reference/runs.md": Page(
        {**SHOP, **SQUARES},
        "evalspec evaluate agent.yaml\nevalspec evaluate agent.yaml",
        stand_ins=("agent",),
        prints={
            1: "cd ../squares; WRONG='5 7 10' LUCKY= evalspec evaluate agent.yaml; evalspec runs label latest main\n"
            "flock .evalspec/runs/latest/.lock evalspec evaluate agent.yaml --resume",
            2: "cd ../squares; WRONG='7 8' LUCKY= evalspec evaluate agent.yaml\n"
            "WRONG='1 2 3 4 5 6' LUCKY= evalspec evaluate agent.yaml ||\n"
            "INTERRUPT_AT=7 evalspec evaluate agent.yaml -j 1 || evalspec runs list",
            3: "cd ../squares; INTERRUPT_AT=7 evalspec evaluate agent.yaml -j 1",
            5: "cd ../squares; evalspec report",
            6: "cd ../squares; evalspec evaluate agent.yaml --repeat 4",
            7: "cd ../squares; sed -i 's/ciGate: true/ciGate: {minPassRate: 0.75}/' agent.yaml\n"
            "evalspec evaluate agent.yaml --repeat 4",
        },
    ),
    "docs/reference/service.md": Page(
        SHOP,
        "mkdir shop ../backups\nevalspec evaluate agent.yaml\nevalspec runs label latest main",
        filled={
            "0123456789ab": "$(evalspec token list --json | jq -r '.tokens[-1].id')",
            "/backups/": "../backups/",
            POLL.format("ID"): f"until {POLL.format('ID')} | grep completed; do sleep 0.1; done",
            COMPARE: f"until {POLL.format('NEW')} | grep completed; do sleep 0.1; done\n{COMPARE}",
        },
        stand_ins=("agent",),
        has_manifest=True,
    ),
}


@pytest.mark.parametrize(("page", "needs"), list_pages(PAGES, lambda name: name.startswith("docs/reference/")))
def test_the_blocks_of_the_page_run(page, needs, tmp_path, monkeypatch):
    run_page(page, needs, tmp_path, monkeypatch)
