"""The quick way through a run file against the strict reader: the same numbers, or left to it."""

import gzip
import tempfile
from pathlib import Path
from types import MappingProxyType

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from evalspec.inputs.ranking_files import GroundTruth, read_run
from evalspec.scoring.ranking import plain_lines, run_files, run_scan
from evalspec.scoring.ranking.engine import MeasureSpec
from evalspec.scoring.ranking.hits import collect_from_scores
from evalspec.scoring.ranking.plain_lines import split_lines
from evalspec.scoring.ranking.run_files import measure_run_file
from evalspec.scoring.ranking.run_scan import scan_run

NAMES = st.text(st.sampled_from("ab1é中"), min_size=1, max_size=4).map(lambda name: name * (1 + len(name) % 3 * 5))
SCORES = st.one_of(
    st.integers(-3, 3).map(str),
    st.sampled_from(["0.5", "0.50", "-0.5", "12.3456", "1e2", "-1.5E-3", "5.", ".5", "+2", "9007199254740993.0"]),
    st.floats(-1e6, 1e6).map(repr),
    st.floats(-100, 100).map(lambda value: f"{value:.6f}"),
    st.tuples(st.integers(0, 10**9), st.integers(0, 10**9)).map(lambda parts: f"{parts[0]}.{parts[1]}"),
)
QUERY = st.tuples(st.dictionaries(NAMES, SCORES, min_size=1, max_size=12), st.booleans())
RUNS = st.dictionaries(NAMES, QUERY, min_size=1, max_size=6)
QRELS = st.dictionaries(NAMES, st.dictionaries(NAMES, st.integers(0, 3), max_size=5), max_size=5)


def render(run, by_score):
    """A run file; a query's lines stand in the order of their scores or any, ranks count them."""
    lines = []
    for query, (scores, in_order) in run.items():
        documents = sorted(scores, key=lambda d: -float(scores[d])) if in_order or by_score else list(scores)
        lines += [f"{query} Q0 {d} {rank} {scores[d]} tag" for rank, d in enumerate(documents, 1)]
    return lines


def by_query(hits):
    """Sorted (rank, grade) of each query, and what was retrieved."""
    ranks, grades = iter(hits.ranks), iter(hits.grades)
    found = [sorted((next(ranks), next(grades)) for _ in range(count)) for count in hits.counts]
    return found, list(hits.retrieved)


def read_both(text, qrels, block=1 << 21):
    """(scanned, (run, problems, warnings)) of the same file."""
    with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        patch.setattr(run_scan, "_BLOCK_BYTES", block)
        path = Path(folder) / "run"
        path.write_bytes(text)
        problems, warnings = [], []
        run = read_run(path, "run", problems, warnings)
        return scan_run(path, "run", qrels), (run, problems, warnings)


def assert_same(scanned, strict, qrels):
    run, problems, warnings = strict
    assert not problems
    assert by_query(scanned.hits) == by_query(collect_from_scores(qrels, run))
    assert scanned.queries == len(run)
    assert list(scanned.warnings) == warnings


@given(RUNS, QRELS, st.sampled_from([1, 40, 200, 1 << 21]), st.booleans(), st.booleans(), st.booleans())
def test_a_plain_file_gives_the_same_either_way(run, more, block, by_score, ends, packed):
    qrels = more | {query: {d: n % 3 for n, d in enumerate(scores)} for query, (scores, by) in run.items() if by}
    text = ("\n".join(render(run, by_score)) + "\n" * ends).encode()
    scanned, strict = read_both(gzip.compress(text) if packed else text, qrels, block)
    assert scanned is not None
    assert_same(scanned, strict, qrels)


@given(RUNS, QRELS, st.data())
def test_a_damaged_file_is_left_to_the_strict_reader_or_the_same(run, qrels, data):
    text = "\n".join(render(run, by_score=False)).encode() + b"\n"
    at = data.draw(st.integers(0, len(text) - 1))
    change = data.draw(st.sampled_from([b"", b" ", b"\n", b"\t", b"\0", b"\xff", b".", b"-", b"7", b"_", b"x", b"\r"]))
    damaged = text[:at] + change + text[at + 1 :]
    scanned, strict = read_both(damaged, qrels, data.draw(st.sampled_from([30, 1 << 21])))
    if scanned is not None:
        assert_same(scanned, strict, qrels)


PLAIN = [b"q Q0 a 1 9.5 t", b"q Q0 b 2 8.5 t", b"r Q0 a 1 7.5 t"]


@pytest.mark.parametrize(
    "lines",
    [
        [*PLAIN, b"r Q0 a 2 1.5 t"],
        [*PLAIN, b"q Q0 c 3 1.5 t"],
        [*PLAIN, b"q Q0 c 3 1.5 t", b"s Q0 b 2 0.5 t"],
        [*PLAIN, b"r Q0 b 2 nan t"],
        [*PLAIN, b"r Q0 b 2 1_0 t"],
        [*PLAIN, b"r Q0 b 2 1..0 t"],
        [*PLAIN, b"r Q0 b 2 1e999 t"],
        [*PLAIN, b"r Q0 b 2.0 1 t"],
        [*PLAIN, b"r Q0 b 2 1"],
        [*PLAIN, b"r Q0 b 2 1 t t"],
        [*PLAIN, b"r Q0  2 1 t"],
        [*PLAIN, b"r\tQ0\tb\t2\t1\tt"],
        [*PLAIN, b"r Q0 \xff 2 1 t"],
        [*PLAIN, b""],
        [],
    ],
    ids=repr,
)
def test_what_is_not_plain_is_left_to_the_strict_reader(lines):
    qrels = {"q": {"a": 1}, "r": {"b": 1}}
    assert read_both(b"".join(line + b"\n" for line in PLAIN), qrels)[0] is not None
    assert read_both(b"".join(line + b"\n" for line in lines), qrels)[0] is None


def test_ids_with_equal_keys_are_not_taken_for_each_other(monkeypatch):
    """Were all keys the same, a judged document would be compared by its bytes, and two in a query left alone."""
    monkeypatch.setattr(plain_lines, "_MULTIPLIER", 0)
    qrels = {"q": {"b": 1}, "r": {"b": 2}}
    scanned, _ = read_both(b"q Q0 a 1 9 t\nr Q0 b 1 9 t\n", qrels)
    assert by_query(scanned.hits) == ([[], [(1, 2)]], [1, 1])
    assert read_both(b"q Q0 a 1 9 t\nq Q0 b 2 8 t\n", qrels)[0] is None
    assert read_both(b"q Q0 a 1 9 t\n", {"q": {"b": 1, "c": 1}})[0] is None


@given(st.lists(SCORES, min_size=1))
@example(["99999999.99999999", "100000000", "5.", ".5", "0.", "12345678.", "123456789"])
def test_scores_are_the_nearest_doubles(written):
    lines = split_lines("".join(f"q Q0 d 1 {score} t\n" for score in written).encode())
    assert lines.parse_scores().tolist() == [float(score) for score in written]


def measure(path, qrels, specs, groups=MappingProxyType({})):
    problems, warnings = [], []
    truth = GroundTruth(qrels, "qrels", groups)
    return measure_run_file(path, "run", truth, specs, 1, problems, warnings), problems, warnings


def test_large_and_small_files_are_measured_alike(tmp_path, monkeypatch):
    path = tmp_path / "run"
    lines = [f"q{n} Q0 d{d} {d} {(n * d) % 7}.5 t\n" for n in range(20) for d in range(1, 30)]
    path.write_text("".join(lines))
    qrels = {f"q{n}": {f"d{d}": d % 3 for d in range(n, 40, 5)} for n in range(5, 25)}
    specs = [MeasureSpec("nDCG", 10), MeasureSpec("AP"), MeasureSpec("Judged", 5)]
    small = measure(path, qrels, specs)
    monkeypatch.setattr(run_files, "_LARGE_BYTES", 0)
    monkeypatch.setattr(run_files, "read_run", None)
    assert measure(path, qrels, specs) == small
    assert small[2], "the ranks contradict the scores, and both ways say so"


def test_groups_are_measured_from_large_files_too(tmp_path, monkeypatch):
    monkeypatch.setattr(run_files, "_LARGE_BYTES", 0)
    path = tmp_path / "run"
    path.write_text("q Q0 b 1 2.5 t\n")
    measured, *_ = measure(path, {"q": {"a": 1, "b": 1}}, [MeasureSpec("Recall")], {"q": (("a", "b"),)})
    assert measured.values[MeasureSpec("Recall")] == [1.0]


def test_a_large_file_with_an_error_is_explained_by_the_strict_reader(tmp_path, monkeypatch):
    monkeypatch.setattr(run_files, "_LARGE_BYTES", 0)
    path = tmp_path / "run"
    path.write_text("q Q0 a 1 2.5 t\nq Q0 a 2 1.5 t\n")
    measured, problems, _ = measure(path, {"q": {"a": 1}}, [MeasureSpec("AP")])
    assert measured is None
    assert "duplicate document 'a' in query 'q'" in problems[0].render()
    path.write_text("q Q0 x 1 2.5 t\n")
    assert "no retrieved id occurs in the ground truth" in measure(path, {"q": {"a": 1}}, [])[1][0].render()
