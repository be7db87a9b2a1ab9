"""What a dataset may say of its retrieval metrics: cut-offs, grades, other systems' formulas, slices."""

import json

import pytest

RANKINGS = {"s0": ["a", "x"], "s1": ["x", "b", "a"], "s2": [], "s3": ["x"]}
SAMPLES = [
    {"id": "s0", "relevant": {"a": 3, "b": 1}, "metadata": {"level": "easy"}, "tags": ["t"]},
    {"id": "s1", "relevant": {"a": 1, "b": 2}, "metadata": {"level": "hard"}},
    {"id": "s2", "relevant": {"a": 0}, "metadata": {"level": "hard"}},
    {"id": "s3", "relevant": {}, "tags": ["t"]},
]


@pytest.fixture
def measure(project):
    """The metrics of the dataset report, from recorded rankings."""
    replies = [{"id": name, "retrieved_context_ids": ids} for name, ids in RANKINGS.items()]
    (project.folder / "replies.jsonl").write_text("\n".join(map(json.dumps, replies)), encoding="utf-8")

    def measure(*metrics, samples=SAMPLES, **config):
        project.evaluation.clear()
        project.dataset("qa", samples, **({"metrics": list(metrics)} if metrics else {}), **config)
        outcome = project.evaluate("--responses", "replies.jsonl", "--json")
        assert outcome.code == 0, outcome.err
        return outcome.document["datasets"][0]

    return measure


def values(dataset):
    return {name: metric["value"] for name, metric in dataset["metrics"].items()}


def test_several_cut_offs_in_one_pass(measure):
    dataset = measure("recall", "map", "precision_at_1", "RR@2", "string_match", k=[1, 3])
    assert list(dataset["metrics"]) == [
        "Recall@1", "Recall@3", "AP@1", "AP@3", "Precision@1", "RR@2", "string_match", "no_answer",
    ]  # fmt: skip
    assert values(dataset)["Recall@1"] == pytest.approx((1 / 2 + 0) / 2)
    assert values(dataset)["Recall@3"] == pytest.approx((1 / 2 + 1) / 2)
    assert dataset["metrics"]["Recall@3"]["median"] == pytest.approx(3 / 4)


def test_min_grade(measure):
    assert values(measure("Recall", minGrade=2))["Recall"] == 1
    assert values(measure("Recall", minGrade=3))["Recall"] == 1
    assert measure("Recall", minGrade=3)["metrics"]["Recall"]["notApplicable"] == 3


def test_queries_without_relevant_documents_are_told_apart(measure):
    metrics = measure("Recall", "nDCG@3")["metrics"]
    assert (metrics["Recall"]["scored"], metrics["Recall"]["notApplicable"]) == (2, 2)
    assert (metrics["no_answer"]["value"], metrics["no_answer"]["scored"]) == (1 / 2, 2)


def test_or_are_zeros_where_the_old_habit_is_wanted(measure):
    metrics = measure("Recall", emptyQrels="zero")["metrics"]
    assert metrics["Recall"]["value"] == pytest.approx((1 / 2 + 1 + 0 + 0) / 4)
    assert "no_answer" not in metrics


def test_and_or_ground_truth(measure):
    samples = [
        {"id": "s0", "relevant": [["a", "b"], ["c"]]},
        {"id": "s1", "relevant": [["a", "b"]]},
        {"id": "s2", "relevant": [["a"]]},
        {"id": "s3", "relevant": ["x"]},
    ]
    assert values(measure("Recall", samples=samples))["Recall"] == pytest.approx((1 / 2 + 1 + 0 + 1) / 4)


def test_other_systems_formulas(measure):
    unrag = measure("Recall@2", "Precision@5", compat="unrag")["metrics"]
    assert unrag["Recall@2"]["value"] == pytest.approx((1 / 2 + 1 / 2 + 0 + 0) / 4)
    assert unrag["Precision@5"]["value"] == pytest.approx((1 / 5 + 2 / 5 + 0 + 0) / 4)
    autorag = measure("Recall@2", compat="autorag")["metrics"]["Recall@2"]
    assert (autorag["value"], autorag["scored"], autorag["notApplicable"]) == (pytest.approx(1 / 2), 2, 2)


def test_a_measure_that_the_other_system_lacks(project):
    project.dataset("qa", SAMPLES, metrics=["AP"], compat="unrag")
    outcome = project.validate("--json")
    assert outcome.code == 2
    assert any("compat: unrag has no AP" in error["message"] for error in outcome.document["errors"])


def test_slices(measure):
    dataset = measure("Recall", slices=["level", "tags"])
    slices = {part["name"]: (part["selected"], part["metrics"]["Recall"]["value"]) for part in dataset["slices"]}
    assert slices == {"level=easy": (1, 1 / 2), "level=hard": (2, 1), "t": (2, 1 / 2)}


def test_no_metrics_named_is_what_the_samples_make_sensible(measure):
    samples = [sample | {"expected": ""} for sample in SAMPLES]
    assert list(measure(samples=samples)["metrics"]) == [
        "Recall@10", "Precision@10", "nDCG@10", "RR@10", "Success@10", "no_answer",
    ]  # fmt: skip


def test_f_beta(measure):
    precision, recall = 1 / 2, 1 / 2
    assert values(measure("F0.5", samples=SAMPLES[:1]))["F0.5"] == pytest.approx(
        1.25 * precision * recall / (0.25 * precision + recall)
    )


@pytest.mark.parametrize(
    ("config", "part"),
    [
        ({"k": [0]}, "greater than or equal to 1"),
        ({"k": []}, "it is empty"),
        ({"minGrade": 0}, "greater than or equal to 1"),
        ({"compat": "ranx"}, "'autorag' or 'unrag'"),
        ({"retrievalGt1d": "xor"}, '"and" or "or"'),
        ({"emptyQrels": "nan"}, '"zero"'),
        ({"format": "jsnl"}, "did you mean 'jsonl'?"),
        ({"corpsu": "x"}, "did you mean 'corpus'?"),
    ],
)
def test_bad_settings(project, config, part):
    project.dataset("qa", SAMPLES, metrics=["Recall"], **config)
    outcome = project.validate()
    assert outcome.code == 2
    assert part in outcome.out


def test_a_trec_run_stands_in_for_recorded_replies(project):
    project.dataset("qa", SAMPLES[:2], metrics=["Recall@1", "RR"])
    lines = ["s0 Q0 x 1 1.5e0 tag", "s0\tQ0\ta\t2\t2.5\ttag", "s1 Q0 b 1 7 tag", "s1 Q0 x 2 7 tag"]
    (project.folder / "run.txt").write_text("\n".join(lines) + "\n")
    outcome = project.evaluate("--responses", "run.txt", "--json")
    assert outcome.code == 0, outcome.err
    assert values(outcome.document["datasets"][0]) == {"Recall@1": 1 / 4, "RR": 3 / 4}, "ties by id, descending"
    assert "the rank contradicts the score" in outcome.err


@pytest.mark.parametrize(
    ("run", "part"),
    [
        ("s0 Q0 1 1 2.5 tag\n", "no retrieved id occurs in the ground truth of 'qa': '1' against 'a'"),
        ("s0 Q0 a 1 nan tag\n", "run.txt:1"),
        ("s0 Q0 a 1 2\n", "5 fields instead of 6"),
        ("s0 Q0 a 1 2 tag\ns0 Q0 a 2 1 tag\n", "run.txt:2"),
    ],
)
def test_bad_runs(project, run, part):
    project.dataset("qa", SAMPLES[:2], metrics=["Recall@1"])
    (project.folder / "run.txt").write_text(run)
    outcome = project.evaluate("--responses", "run.txt")
    assert outcome.code == 2
    assert part in outcome.err


def test_a_preset_that_no_format_brings(project):
    project.samples(1)
    search = {"preset": "mixpek"}
    project.evaluation["retrievers"] = {"mine": {"http": {"url": "http://127.0.0.1:9", "search": search}}}
    outcome = project.validate()
    assert outcome.code == 2
    assert "spec.evaluation.retrievers.mine.http.search.preset: unknown preset 'mixpek'" in outcome.out
    assert "did you mean 'mixpeek'?" in outcome.out


def test_editors_know_the_names_that_formats_bring(project):
    definitions = json.loads(project("schema", "manifest").out)["$defs"]
    assert definitions["DatasetConfig"]["properties"]["compat"]["anyOf"][0]["enum"] == ["autorag", "unrag"]
    assert definitions["HttpSearch"]["properties"]["preset"]["anyOf"][0]["enum"] == ["autorag", "mixpeek"]


@pytest.mark.parametrize(
    ("retriever", "corpus", "said"),
    [
        ({"builtin": "bm25"}, False, "datasets[0].retriever: the retriever 'mine' searches in memory, but dataset 'd'"),
        ({"builtin": "bm25", "language": "englisch"}, True, "mine.language: there is no stemmer for 'englisch'. did"),
        ({"builtin": "bm25", "language": None}, True, None),
    ],
)
def test_validate_finds_what_a_builtin_lacks(project, retriever, corpus, said):
    (project.folder / "d.jsonl").write_text('{"id": "a", "input": "x", "expected": "", "relevant": ["one"]}\n')
    (project.folder / "c.jsonl").write_text('{"id": "one", "text": "x"}\n')
    project.evaluation["retrievers"] = {"mine": retriever}
    dataset = {"name": "d", "path": "d.jsonl", "retriever": "mine", "metrics": ["Recall@5"]}
    project.evaluation["datasets"] = [dataset | ({"corpus": "c.jsonl"} if corpus else {})]
    for done in (project.validate(), project.evaluate("--no-ingest")):
        assert done.code == (2 if said else 0), done.err
        assert said is None or said in done.out + done.err
