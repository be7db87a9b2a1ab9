"""trec_eval without its command line: its C code for reading, ranking and measuring, from pytrec_eval's wheel.

The wheel contains all of trec_eval except `main`, compiled by its maintainers. This script does the work of `main`: it
reads both files, finds the judgements of each query of the run, computes and sums every measure, and prints the means
over all judged queries (`-c`). `main` searches the judgements linearly; this script uses a dictionary, which favours
trec_eval. Ten calls from Python per query cost it some time.
"""

import sys
from collections.abc import Iterable
from ctypes import (
    CDLL,
    CFUNCTYPE,
    POINTER,
    Array,
    Structure,
    addressof,
    byref,
    c_char_p,
    c_double,
    c_int,
    c_long,
    c_void_p,
    create_string_buffer,
)

import pytrec_eval_ext

CUT = b"1,5,10,20"
MEASURES = {"P": CUT, "recall": CUT, "ndcg_cut": CUT, "map": b"", "recip_rank": b""}


class Argument(Structure):
    _fields_ = [("measure", c_char_p), ("parameters", c_void_p)]


class Settings(Structure):
    _fields_ = [
        *((name, c_long) for name in ("per_query", "summary", "debug_level")),
        ("debug_query", c_char_p),
        *((name, c_long) for name in ("relation", "complete", "judged_only", "documents", "level", "depth")),
        ("qrels_format", c_char_p),
        ("run_format", c_char_p),
        ("zscore", c_long),
        ("arguments", POINTER(Argument)),
    ]


class Judgements(Structure):
    _fields_ = [("query", c_char_p), ("format", c_char_p), ("judged", c_void_p)]


class AllJudgements(Structure):
    _fields_ = [("count", c_long), ("reserved", c_long), ("each", POINTER(Judgements))]


class Results(Structure):
    _fields_ = [("query", c_char_p), ("run", c_char_p), ("format", c_char_p), ("retrieved", c_void_p)]


class AllResults(Structure):
    _fields_ = [("count", c_long), ("reserved", c_long), ("each", POINTER(Results))]


class Value(Structure):
    _fields_ = [("name", c_char_p), ("value", c_double)]


class Values(Structure):
    _fields_ = [
        *(("query", c_char_p), ("queries", c_long), ("each", POINTER(Value))),
        *(("count", c_long), ("reserved", c_long)),
    ]


class Measure(Structure):
    _fields_ = [
        ("name", c_char_p),
        ("explanation", c_char_p),
        ("start", CFUNCTYPE(c_int, *[c_void_p] * 3)),
        ("compute", CFUNCTYPE(c_int, *[c_void_p] * 5)),
        ("add", CFUNCTYPE(c_int, *[c_void_p] * 4)),
        *((name, c_void_p) for name in ("average", "print_one", "print_all", "parameters")),
        ("index", c_long),
    ]


def call(status: int) -> None:
    if status < 0:
        sys.exit("trec_eval gave up")


def make_arguments() -> Array[Argument]:
    """Return the cut-offs, each in its own memory, because trec_eval writes to it."""
    buffers = {name: create_string_buffer(cut) for name, cut in MEASURES.items() if cut}
    arguments = (Argument * (len(buffers) + 1))(*((name.encode(), addressof(text)) for name, text in buffers.items()))
    arguments.kept_alive = buffers
    return arguments


def compute_means(qrels_path: str, run_path: str) -> Iterable[tuple[str, float]]:
    trec_eval = CDLL(pytrec_eval_ext.__file__)
    settings = Settings(
        level=1, depth=sys.maxsize, qrels_format=b"qrels", run_format=b"trec_results", arguments=make_arguments()
    )
    qrels, results, total = AllJudgements(), AllResults(), Values(query=b"all")
    call(trec_eval.te_get_qrels(byref(settings), qrels_path.encode(), byref(qrels)))
    call(trec_eval.te_get_trec_results(byref(settings), run_path.encode(), byref(results)))
    measures = [Measure.in_dll(trec_eval, f"te_meas_{name}") for name in MEASURES]
    for measure in measures:
        call(measure.start(byref(settings), byref(measure), byref(total)))
    # The values of one query are at the offsets that were assigned at the start to the totals.
    values = (Value * total.count)()
    one = Values(each=values, count=total.count, reserved=total.count)
    places = {qrels.each[number].query: number for number in range(qrels.count)}
    for result in results.each[: results.count]:
        place = places.get(result.query)
        if place is None:
            continue
        for value in values:
            value.value = 0
        for measure in measures:
            judged = byref(qrels.each[place])
            call(measure.compute(byref(settings), judged, byref(result), byref(measure), byref(one)))
            call(measure.add(byref(settings), byref(measure), byref(one), byref(total)))
    return [(value.name.decode(), value.value / qrels.count) for value in total.each[: total.count]]


if __name__ == "__main__":
    for name, mean in compute_means(*sys.argv[1:]):
        print(f"{name}\t{mean:.17g}")
