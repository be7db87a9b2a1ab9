"""Every block of sh and Python in the reference runs, page by page and in order."""

import pytest

from shell_pages import GOLD_SET, SHOP, Page, list_pages, run_page

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
FOREIGN_FILES = """\
evalspec convert evals/rag.jsonl autorag --to autorag --lossy
printf 'subject,solution\\nA refund?,In 14 days.\\n' > tickets.csv
"""
PAGES = {
    "docs/reference/compare.md": Page(SHOP, LABELLED, stand_ins=("agent",)),
    "docs/reference/datasets.md": Page(SHOP, stand_ins=("agent",)),
    "docs/reference/formats.md": Page(SHOP, FOREIGN_FILES),
    "docs/reference/library.md": Page(SHOP, GOLD_SET),
    "docs/reference/reports.md": Page(
        SHOP, "evalspec evaluate agent.yaml -o report.jsonl\nevalspec runs label latest main", stand_ins=("agent",)
    ),
    "docs/reference/runs.md": Page(
        SHOP, "evalspec evaluate agent.yaml\nevalspec evaluate agent.yaml", stand_ins=("agent",)
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


@pytest.mark.timeout(900)  # a page may have twenty commands, and other programs may have the processors
@pytest.mark.parametrize(("page", "needs"), list_pages(PAGES, lambda name: name.startswith("docs/reference/")))
def test_the_blocks_of_the_page_run(page, needs, tmp_path, monkeypatch):
    run_page(page, needs, tmp_path, monkeypatch)
