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
EVALUATED = "evalspec evaluate agent.yaml"
FOREIGN = "tests/datasets/foreign"
PAGES = {
    "docs/how-to/ci.md": Page(SHOP, EVALUATED, stand_ins=("agent",)),
    "docs/how-to/gold-permission.md": Page(SHOP, ACCEPTED, stand_ins=("agent",)),
    "docs/how-to/gold-quality.md": Page(before=GOLD_SET),
    "docs/how-to/gold-slices.md": Page(SHOP, MANY_TRIPLES, stand_ins=("agent",)),
    "docs/how-to/labels.md": Page(keys=(("q", "left; to resume: "),), is_printed=True),
    "docs/how-to/migrating-from-deepeval.md": Page({"goldens.json": f"{FOREIGN}/deepeval.json"}),
    "docs/how-to/migrating-from-openai-evals.md": Page({"run.jsonl": f"{FOREIGN}/openai-evals-run.jsonl"}),
    "docs/how-to/migrating-from-promptfoo.md": Page({"promptfooconfig.yaml": f"{FOREIGN}/promptfoo.yaml"}),
    "docs/how-to/migrating-from-ragas.md": Page({"results.jsonl": f"{FOREIGN}/ragas.jsonl"}),
    "docs/how-to/own-agent.md": SHOWN,
    "docs/how-to/pytest.md": Page(SHOP, stand_ins=("judge",)),
    "docs/how-to/retrievers.md": SHOWN,
    "docs/how-to/sample-size.md": Page(SHOP, EVALUATED, stand_ins=("agent",)),
    "docs/how-to/untrusted.md": Page({"theirs": SHOP["."]}, stand_ins=("agent",)),
}


@pytest.mark.timeout(900)  # a page may have twenty commands, and other programs may have the processors
@pytest.mark.parametrize(("page", "needs"), list_pages(PAGES, lambda name: name.startswith("docs/how-to/")))
def test_the_blocks_of_the_page_run(page, needs, tmp_path, monkeypatch):
    run_page(page, needs, tmp_path, monkeypatch)
