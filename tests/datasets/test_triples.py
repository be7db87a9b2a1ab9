from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from dataset_contents import METADATA, SAMPLES_OF_ANY_KIND, TEXT, samples, there_and_back
from evalspec.curation.gold import files
from evalspec.inputs.datasets.base import DATASETS, DatasetContent, DatasetDefaults, Source
from evalspec.inputs.datasets.load import load_dataset
from evalspec.model import Document, Sample

FILES = Path(__file__).parent / "files" / "triples"
BLOCK = {"block_id": "b1", "document_id": "terms", "page_range": [3, 4], "version": "2024-05"}


@pytest.fixture
def load(load_content):
    return lambda content: load_content(content, "d.yaml", "triples")


def test_a_good_file_whole():
    loaded = load_dataset(Source(FILES / "good.yaml", "good.yaml"))
    assert (loaded.problems, loaded.warnings) == ((), ())
    refund, plans, signs = loaded.samples
    assert refund == Sample(
        id="refund",
        user_input="How long does a refund take?",
        references=("14 days",),
        qrels={"b1": 1},
        metadata={"author": "Ada", "checked": "2024-05-01", "expected_block": BLOCK},
        line=2,
    )
    assert (plans.references, plans.qrels, plans.metadata) == (
        ("The annual ones,\nwithin 30 days.\n",),
        {"b2": 1},
        {},
    )
    assert (signs.references, signs.metadata["expected_block"]) == ((), {"block_id": "b3", "document_id": "terms"})
    assert [sample.line for sample in loaded.samples] == [2, 9, 15]


def test_the_id_follows_the_content_not_the_metadata(load):
    entry = "- question: {}\n  expected_block: {{block_id: b}}\n  metadata: {{n: {}}}\n"
    ids = [load(entry.format(*fields)).samples[0].id for fields in (("a", 1), ("a", 2), ("b", 1))]
    assert ids[0] == ids[1] != ids[2]
    assert ids[0] == "f324009e511c", "the same on every machine and in every version"


def test_every_problem_of_a_bad_file_with_its_line():
    loaded = load_dataset(Source(FILES / "bad.yaml", "bad.yaml"))
    assert [(problem.line, problem.field) for problem in loaded.problems] == [
        (4, "triples[0].expected_block.block_id"),
        (5, "triples[0].expected_block.page_range"),
        (6, "triples[0].expected_block.version"),
        (8, "triples[1].expected_block"),
        (12, "triples[2].expected_block.document"),
        (19, "triples[4].metadata"),
    ]


@pytest.mark.parametrize(
    ("entry", "part"),
    [
        ("{expected_block: {block_id: b}}", "[0].question: this key is required"),
        ("{question: q}", "[0].expected_block: this key is required"),
        ("{question: q, expected_block: b}", "[0].expected_block: 'b' is not accepted here"),
        ("{question: q, expected_block: {document_id: d}}", "[0].expected_block.block_id: this key is required"),
        ("{question: q, expected_block: {block_id: 3}}", "block_id: 3 is not text. put it in quotes"),
        ("{question: '', expected_block: {block_id: b}}", "[0].question: it is empty"),
        ("{question: [q], expected_block: {block_id: b}}", "[0].question: ['q'] is not accepted here"),
        ("{question: q, expected_answer: '', expected_block: {block_id: b}}", "[0].expected_answer: it is empty"),
        ("{question: q, expected_block: {block_id: b, version: 2}}", "version: 2 is not text. put it in quotes"),
        ("{question: q, expected_block: {block_id: b, page_range: 3}}", "page_range: 3 is not accepted here"),
        ("{question: q, expected_block: {block_id: b, page_range: [3]}}", "page_range: it has 1, and needs at least 2"),
        ("{question: q, expected_block: {block_id: b, page_range: [1, 2, 3]}}", "page_range: list should have at most"),
        ("{question: q, expected_block: {block_id: b, page_range: [2, 1]}}", "[2, 1] ends before it begins"),
        ("{question: q, expected_block: {block_id: b, page_range: [-1, 1]}}", "page_range[0]: -1 is not accepted"),
        ("{question: q, expected_block: {block_id: b, page_range: [1, x]}}", "page_range[1]: 'x' is not accepted"),
        ("{question: q, expected_blocks: 1, expected_block: {block_id: b}}", "did you mean 'expected_block'?"),
        ("{question: q, expected_block: {block_id: b}, metadata: {a: [1, .inf]}}", "[0].metadata.a[1]: inf is not"),
        ("{question: q, expected_block: {block_id: b}, metadata: {a: {1: x}}}", "[0].metadata.a[1]: 1 is not text"),
        ("{question: q, expected_block: {block_id: b}, metadata: {a: {1: {}}}}", "[0].metadata.a[1]: 1 is not text"),
        ("3", "[0]: 3 is not accepted here"),
    ],
)
def test_bad_content_is_one_clear_problem(load, entry, part):
    (problem,) = load(f"# gold\n- {entry}\n").problems
    assert problem.render().startswith("d.yaml:2: ")
    assert part in problem.render()


TWIN = "- question: q\n  expected_block: {block_id: b}\n"


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", "d.yaml: the file is empty"),
        ("# nothing yet\n", "d.yaml: the file is empty"),
        ("[]", "d.yaml:1: triples: it is empty"),
        ("triples:\n", "d.yaml:1: triples: None is not accepted here"),
        ("3", "d.yaml:1: 3 is not accepted here"),
        ("triple:\n- {}\n", "d.yaml:1: question: this key is required"),
        ("- question: q\n   expected_block: b\n", "d.yaml:2: not valid YAML"),
        ("- question: q\n  question: r\n", "d.yaml:2: [0].question: duplicate key"),
        ("---\n- a\n---\n- b\n", "d.yaml:2: [0]: 'a' is not accepted here"),
        (TWIN + "<<<<<<< ours\n", "d.yaml:3: git left a conflict here"),
        (b"- question: \xe9\n", "d.yaml:1: not UTF-8 text"),
        ("- !!python/object:os.system x\n", "d.yaml:1: [0]: the YAML tag"),
        (TWIN + TWIN, "d.yaml:3: [1].id: this triple (same question, block and answer) is a duplicate of line 1"),
        (
            "- &a [x, x, x, x, x, x, x, x, x, x]\n" + bomb
            if (
                bomb := "".join(
                    f"- &{name} [*{of}, *{of}, *{of}, *{of}, *{of}, *{of}, *{of}, *{of}, *{of}, *{of}]\n"
                    for name, of in ("ba", "cb", "dc", "ed", "fe")
                )
            )
            else "",
            "d.yaml: aliases expand to",
        ),
    ],
)
def test_bad_documents(load, content, message):
    assert load(content).problems[0].render().startswith(message)


def test_one_triple_several_documents_and_a_folder_of_files(load, tmp_path):
    """The form of the source that gold sets follow: one mapping, with dates and the people who reviewed it."""
    one = "question: What?\nexpected_block: {block_id: b}\nmetadata: {added_at: 2025-06-04, reviewed_by: [a, m]}\n"
    (sample,) = load(one).samples
    assert (sample.user_input, sample.qrels, sample.metadata["added_at"]) == ("What?", {"b": 1}, "2025-06-04")
    several = load(f"{one}---\n- {{id: x, question: Who, expected_block: {{block_id: c}}}}\n---\n# nothing\n")
    assert [sample.id for sample in several.samples] == [sample.id, "x"]
    (tmp_path / "more").mkdir()
    (tmp_path / "more" / "a.yaml").write_text(one)
    (tmp_path / "more" / "b.yaml").write_text(one.replace("What", "Who"))
    folder = load_dataset(Source(tmp_path / "more", "more"))
    assert (folder.problems, folder.format) == ((), "triples")
    assert [sample.user_input for sample in folder.samples] == ["What?", "Who?"]


def test_several_blocks_are_and_or_ground_truth(load):
    blocks = "[{block_id: a, version: v1}, {any: [{block_id: b}, {block_id: c}]}]"
    (sample,) = load(f"- question: q\n  expected_block: {blocks}\n  claims: [one, two]\n").samples
    assert sample.groups == (("a",), ("b", "c"))
    assert sample.qrels == {"a": 1, "b": 1, "c": 1}
    assert sample.metadata["claims"] == ["one", "two"]
    assert sample.metadata["expected_block"][0] == {"block_id": "a", "version": "v1"}


def test_triples_that_nobody_has_reviewed_are_left_out_by_name(load):
    states = ("state: pending", "resolution: pending-review", "status: Dropped", "resolution: consensus")
    entry = "- {{id: t{}, question: q, expected_block: {{block_id: b}}, metadata: {{{}}}}}\n"
    loaded = load("".join(entry.format(*one) for one in enumerate(states)))
    assert [sample.id for sample in loaded.samples] == ["t3"]
    assert [warning.render() for warning in loaded.warnings] == [
        "d.yaml: 1 triple is pending, so not evaluated: t0",
        "d.yaml: 1 triple is pending-review, so not evaluated: t1",
        "d.yaml: 1 triple is dropped, so not evaluated: t2",
    ]


@pytest.mark.parametrize("version", ["latest", "Current"])
def test_a_version_that_moves_is_refused(load, version):
    (problem,) = load(f"- question: q\n  expected_block: {{block_id: b, version: {version}}}\n").problems
    assert f"'{version}' changes with the document" in problem.render()


def test_a_file_over_the_limit_is_refused(load, monkeypatch):
    monkeypatch.setattr(files, "MAX_BYTES", 50)
    (problem,) = load(TWIN + "#" * 50).problems
    assert (
        problem.render() == "d.yaml: the file has 96 bytes; at most 50 are accepted. split it, or convert it to jsonl"
    )


def test_a_file_may_have_as_many_values_as_it_has_characters(load, monkeypatch):
    monkeypatch.setattr(files, "MAX_EXPANDED_NODES", 5)
    assert load(TWIN).problems == ()


BLOCKS = st.fixed_dictionaries(
    {"block_id": TEXT},
    optional={
        "document_id": TEXT,
        "version": TEXT,
        "page_range": st.lists(st.integers(0, 999), min_size=2, max_size=2).map(sorted),
    },
)
OWN_SAMPLES = st.tuples(
    samples(
        id=TEXT,
        user_input=TEXT,
        references=st.just(()) | st.tuples(TEXT),
        metadata=METADATA.filter(lambda metadata: metadata.keys().isdisjoint({"expected_block", "claims"})),
    ),
    BLOCKS,
)


@given(OWN_SAMPLES)
def test_what_it_can_hold_comes_back_the_same(tmp_path_factory, made):
    bare, block = made
    content = DatasetContent([with_block(sample, block) for sample in bare])
    assert DATASETS.find("triples").list_losses(content) == []
    loaded, back = there_and_back(content, "triples", tmp_path_factory.getbasetemp() / "back.yaml")
    assert not loaded.problems
    assert back == content


@pytest.mark.parametrize(
    "text", ["\x85", "a\u2028b", "a \u2029", "2024-05-01", "yes", "null", "- a: b", "|\n a", "\t", "\x00"]
)
def test_texts_that_yaml_would_take_for_something_else_survive(tmp_path, text):
    content = DatasetContent([Sample(text, text, (text,), qrels={text: 1}, metadata={text: text})])
    loaded, back = there_and_back(content, "triples", tmp_path / "d.yaml")
    assert (loaded.problems, back) == ((), content)


GROUPED = samples(
    id=TEXT,
    user_input=TEXT,
    references=st.just(()),
    groups=st.lists(st.lists(TEXT, min_size=1, max_size=2).map(tuple), min_size=1, max_size=3).map(tuple),
)


@given(GROUPED)
def test_and_or_ground_truth_comes_back_the_same(tmp_path_factory, bare):
    content = DatasetContent([replace(one, qrels={i: 1 for g in one.groups for i in g}) for one in bare])
    assert DATASETS.find("triples").list_losses(content) == []
    loaded, back = there_and_back(content, "triples", tmp_path_factory.getbasetemp() / "groups.yaml")
    assert not loaded.problems
    assert [(one.groups, one.qrels) for one in back.samples] == [(one.groups, one.qrels) for one in content.samples]


@pytest.mark.parametrize("claims", [None, {}, [], "", ["It takes 14 days."]])
def test_empty_claims_are_a_loss_and_others_come_back(tmp_path, claims):
    content = DatasetContent([Sample("s", "q", ("a",), qrels={"b": 1}, metadata={"claims": claims})])
    losses = DATASETS.find("triples").list_losses(content)
    _, back = there_and_back(content, "triples", tmp_path / "back.yaml")
    assert (losses, back == content) == (
        ([], True) if claims else (["metadata.claims that is empty (1 of 1 samples)"], False)
    )


def with_block(sample, block):
    metadata = sample.metadata | ({"expected_block": block} if len(block) > 1 else {})
    return Sample(sample.id, sample.user_input, sample.references, qrels={block["block_id"]: 1}, metadata=metadata)


@given(SAMPLES_OF_ANY_KIND)
def test_anything_is_written_so_that_it_can_be_read(tmp_path_factory, any_samples):
    content = DatasetContent(any_samples)
    losses = DATASETS.find("triples").list_losses(content)
    fitting = [s for s in any_samples if sum(grade >= 1 for grade in (s.qrels or {}).values()) == 1]
    if not fitting:
        assert losses
        return
    loaded, back = there_and_back(content, "triples", tmp_path_factory.getbasetemp() / "any.yaml")
    assert [(s.id, s.user_input, s.reference) for s in back.samples] == [
        (s.id, s.question, s.reference) for s in fitting
    ]
    assert not loaded.problems
    assert losses or back.samples == any_samples


A = Sample("q", "What?", qrels={"a": 1})


@pytest.mark.parametrize(
    ("content", "loss"),
    [
        (DatasetContent([A, Sample("r", "What?", qrels={"a": 1, "b": 1})]), "the whole sample, because not exactly"),
        (DatasetContent([A, Sample("r", "What?", qrels={})]), "the whole sample, because not exactly"),
        (DatasetContent([A, Sample("r", "What?")]), "the whole sample, because not exactly"),
        (DatasetContent([Sample("q", "What?", qrels={"a": 3})]), "grades other than 1"),
        (DatasetContent([Sample("q", "What?", qrels={"a": 1, "b": 0})]), "grades other than 1"),
        (DatasetContent([Sample("q", "What?", ("x", "y"), qrels={"a": 1})]), "all right answers except the first"),
        (DatasetContent([Sample("q", "What?", qrels={"a": 1}, tags=("x",))]), "the tags"),
        (
            DatasetContent([Sample("q", "What?", qrels={"a": 1}, metadata={"expected_block": BLOCK})]),
            "metadata.expected_block that is not the relevant block's",
        ),
        (
            DatasetContent([A, Sample("r", "What?", qrels={"a": 1}, metadata={"x": float("nan")})]),
            "1 of 2 samples, which the format rejects (metadata.x: nan is not",
        ),
        (DatasetContent([A], [Document("a", "A")]), "the text of 1 documents"),
        (DatasetContent([A], None, DatasetDefaults(k=(5,))), "the dataset's own defaults"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_each_loss_is_told_and_the_rest_is_written(tmp_path, content, loss):
    (told,) = DATASETS.find("triples").list_losses(content)
    assert loss in told
    loaded, _ = there_and_back(content, "triples", tmp_path / "lossy.yaml")
    assert not loaded.problems
