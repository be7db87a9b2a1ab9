"""The judgements of any ground truth, whatever its format, and nothing else of it."""

from pathlib import Path

import evalspec.datasets  # noqa: F401 - registers every format
from evalspec.datasets.base import Source
from evalspec.datasets.load import load_dataset
from evalspec.datasets.trec_layout import CollectionFile, find_judgements, is_beir_folder, is_trec_folder
from evalspec.errors import Problem
from evalspec.ranking.run_files import GroundTruth
from evalspec.ranking.trec_files import read_qrels


def load_ground_truth(path: Path, shown_as: str, problems: list[Problem], warnings: list[Problem]) -> GroundTruth:
    """Read which documents are relevant from a dataset of any format; what is wrong goes to `problems`.

    Of the folder of a test collection only the judgements are read: its corpus may be large and says nothing here.

    Raises:
        MissingPackage: the format needs one that is not installed.
    """
    if is_trec_folder(path) or is_beir_folder(path):
        file = find_judgements(CollectionFile(path, shown_as), problems)
        qrels = read_qrels(file.path, file.shown_as, problems, warnings) if file else {}
        return GroundTruth(qrels, file.shown_as if file else shown_as)
    data = load_dataset(Source(path, shown_as))
    problems.extend(data.problems)
    warnings.extend(data.warnings)
    judged = [sample for sample in data.samples if sample.qrels is not None]
    left_out = len(data.samples) - len(judged)
    if data.samples and not judged:
        problems.append(Problem("no sample says which documents are relevant", "add `relevant`", shown_as))
    elif left_out:
        message = f"samples that do not say which documents are relevant, left out: {left_out:,}"
        warnings.append(Problem(message, file=shown_as))
    return GroundTruth(
        qrels={sample.id: sample.qrels for sample in judged if sample.qrels is not None},
        shown_as=shown_as,
        groups={sample.id: sample.groups for sample in judged if sample.groups is not None},
    )
