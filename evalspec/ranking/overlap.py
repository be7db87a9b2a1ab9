"""Whether rankings and judgements speak of the same queries and documents; what may be the matter if they do not."""

from collections.abc import Callable, Iterable, Mapping

from evalspec.errors import Problem

_SAME_BUT_FOR: Mapping[str, Callable[[str], str]] = {
    "quotes": lambda text: text.strip("\"'"),
    "'.0' at the end": lambda text: text.removesuffix(".0"),
    "leading zeros": lambda text: text.lstrip("0"),
    "upper and lower case": str.casefold,
    "a file suffix": lambda text: text.rpartition(".")[0] or text,
    "a path before it": lambda text: text.rpartition("/")[2],
}


def check_overlap(
    qrels: Mapping[str, Mapping[str, int]], rankings: Mapping[str, Iterable[str]], qrels_file: str, run_file: str
) -> Problem | None:
    """What is wrong where no query, or no retrieved document, is known to the judgements: every value would be 0."""
    if not any(map(rankings.__contains__, qrels)):
        message = "no query of the run occurs in the ground truth"
        return _explain(message, list(rankings), list(qrels), qrels_file, run_file)
    judged = {document: None for grades in qrels.values() for document in grades}
    retrieved = [ranking for query, ranking in rankings.items() if query in qrels]
    if not any(retrieved) or any(document in judged for ranking in retrieved for document in ranking):
        return None
    documents = [document for ranking in retrieved for document in ranking]
    return _explain("no retrieved id occurs in the ground truth", documents, list(judged), qrels_file, run_file)


def _explain(message: str, found: list[str], known: list[str], qrels_file: str, run_file: str) -> Problem | None:
    """One id of each side, if it can be two that would be the same but for their writing."""
    if not found or not known:
        return None
    for difference, simplify in _SAME_BUT_FOR.items():
        simplified = {simplify(text): text for text in known}
        twin = next((text for text in found if simplify(text) in simplified), None)
        if twin is not None:
            shown = f"{message}: '{twin}' against '{simplified[simplify(twin)]}' of {qrels_file}"
            return Problem(shown, f"they are the same but for {difference}: write the ids alike", run_file)
    shown = f"{message}: for example '{found[0]}' against '{known[0]}' of {qrels_file}"
    return Problem(shown, "use the ids of the same collection in both files", run_file)
