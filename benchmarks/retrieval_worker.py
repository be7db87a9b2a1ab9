"""A process that measures the same objects with one tool on request.

A line on standard input names the measures, `all` or `cut`. The answer is a line of JSON: wall seconds, CPU seconds,
mean nDCG@10. Preparation is not timed. The objects are recreated for each round, so that lists have no ids with a
cached hash. The ids of a dictionary are hashed when it is built.
"""

import json
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from statistics import fmean
from typing import Any, NamedTuple

CUTOFFS = (1, 5, 10, 20)
Objects = Mapping[str, Any]


class Tool(NamedTuple):
    """How a tool converts {query: {document: score}} to its input, and the input to its mean nDCG@10."""

    prepare: Callable[[Objects], Any]
    measure: Callable[[Objects, Any, bool], float]


def order_documents(run: Objects) -> Any:
    """Return the documents of each query. They are already in order."""
    return {query: list(scores) for query, scores in run.items()}


def keep(run: Objects) -> Any:
    return run


def use_evalspec(qrels: Objects, run: Any, uncut: bool, *, distinct: bool = False) -> float:
    from evalspec.scoring.ranking.engine import MeasureSpec, compute_measures

    specs = [MeasureSpec(name, k) for name in ("Precision", "Recall", "nDCG") for k in CUTOFFS]
    specs += [MeasureSpec("AP"), MeasureSpec("RR")] * uncut
    values = compute_measures(qrels, run, specs, distinct=distinct).values
    return {str(spec): fmean(column) for spec, column in values.items()}["nDCG@10"]


def use_evalspec_vouched(qrels: Objects, run: Any, uncut: bool) -> float:
    return use_evalspec(qrels, run, uncut, distinct=True)


def use_pytrec_eval(qrels: Objects, run: Any, uncut: bool) -> float:
    import pytrec_eval

    cut = ",".join(map(str, CUTOFFS))
    names = {f"P.{cut}", f"recall.{cut}", f"ndcg_cut.{cut}"} | ({"map", "recip_rank"} if uncut else set())
    values = pytrec_eval.RelevanceEvaluator(qrels, names).evaluate(run)
    columns = next(iter(values.values()))
    return {name: sum(row[name] for row in values.values()) / len(qrels) for name in columns}["ndcg_cut_10"]


def use_ranx(qrels: Objects, run: Any, uncut: bool) -> float:
    import ranx

    names = [f"{name}@{k}" for name in ("precision", "recall", "ndcg") for k in CUTOFFS]
    names += ["map", "mrr"] * uncut
    means = ranx.evaluate(ranx.Qrels(qrels), ranx.Run(run), names, make_comparable=True)
    return float(means["ndcg@10"])


def hash_all(qrels: Objects, run: Any, _uncut: bool) -> float:
    """Run the lower bound for any tool that looks at every id: one hash and one set lookup per id."""
    for query in qrels:
        if query in run:
            frozenset(("no document", "nor this")).isdisjoint(run[query])
    return float("nan")


TOOLS = {
    "lists": Tool(order_documents, use_evalspec),
    "vouched": Tool(order_documents, use_evalspec_vouched),
    "scores": Tool(keep, use_evalspec),
    "pytrec_eval": Tool(keep, use_pytrec_eval),
    "ranx": Tool(keep, use_ranx),
    "floor": Tool(order_documents, hash_all),
}


def main(name: str, path: str) -> None:
    tool = TOOLS[name]
    objects = json.loads(Path(path).read_text())
    text = json.dumps(tool.prepare(objects["run"]))
    for line in sys.stdin:
        run = json.loads(text)
        wall, cpu = time.perf_counter(), time.process_time()
        mean = tool.measure(objects["qrels"], run, line.strip() == "all")
        print(json.dumps([time.perf_counter() - wall, time.process_time() - cpu, mean]), flush=True)
        del run


if __name__ == "__main__":
    main(*sys.argv[1:])
