"""What the API and the pages do with labels. The labeller is the user of the token or session."""

import tempfile
from collections.abc import Mapping, Sequence
from functools import partial
from http import HTTPStatus
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from evalspec.base.errors import InvalidInput
from evalspec.curation.labels.binding import Case, compute_reply_digest
from evalspec.curation.labels.current import list_current, list_shown
from evalspec.curation.labels.drawing import LabelDesign
from evalspec.curation.labels.drawn_session import DrawnSession, require_draw
from evalspec.curation.labels.exchanging import ImportedLabels, add_labels
from evalspec.curation.labels.judged_run import CaseFilter
from evalspec.curation.labels.labelling import CHOSEN, add_label
from evalspec.curation.labels.records import KEYS, Fault
from evalspec.curation.labels.session import LabelSession
from evalspec.inputs.datasets.selection import parse_selection
from evalspec.model.calibrations import JudgeCalibration
from evalspec.model.corrections import DrawKind
from evalspec.model.labels import Answer, Label, LabelStats, LabelVerdict
from evalspec.service.access import Access
from evalspec.service.indexed_run import IndexedRun, find_label_files, open_indexed_run
from evalspec.service.problems import ApiProblem, conflict, not_found
from evalspec.service.tokens import Scope

SUFFIXES = {"jsonl": ".jsonl", "csv": ".csv"}
TYPES = {"jsonl": "application/jsonl", "csv": "text/csv; charset=utf-8"}

BEYOND = "beyond"
"""The state of scores and replies that are beyond a threshold."""
DRAWS = {
    "random": DrawKind.RANDOM,
    "strata": DrawKind.STRATIFIED,
    "decide": DrawKind.SEQUENTIAL,
    "new": DrawKind.STRATIFIED,
}
"""How replies are drawn that a person scores blindly, by the word of the address."""
MOST_DIGITS = 9

_MOST_LINES = 5000
_OF_PLACES = frozenset({"--sample", "--dataset", "--metric"})


class ShownLabels(Struct, frozen=True):
    """The labels of a run that somebody may see. `hidden`: how many others there are."""

    labels: Sequence[Label]
    hidden: int = 0


def find_case(
    run: IndexedRun, dataset: str | None, sample: str, attempt: int, metric: str | None, *, is_rated: bool = False
) -> Case:
    """Return what a request wants to label. `is_rated`: the judge need not have a score.

    Raises:
        ApiProblem: 404: The run has no such reply or score, or it cannot be read any more.
        InvalidInput: The run stores no texts.
    """
    try:
        return run.find_case(dataset, sample, attempt, metric, is_rated=is_rated)
    except InvalidInput as error:
        if {problem.field for problem in error.problems} <= _OF_PLACES:
            raise not_found("; ".join(problem.message for problem in error.problems)) from None
        raise


def record_label(
    access: Access,
    run: IndexedRun,
    case: Case,
    verdict: str,
    *,
    value: float | None = None,
    note: str | None = None,
    seen: str | None = None,
    is_blind: bool = False,
    answers: Sequence[Answer] = (),
    design: LabelDesign | None = None,
) -> Label:
    """Record what the caller says about a case. `seen`: the digest of the reply that the caller has read.

    `design`: the draw that the caller goes through, without sight of the judge's scores.

    Raises:
        ApiProblem: 409: The run has another reply by now.
        InvalidInput: A value is invalid.
        StoreError: The label cannot be written.
    """
    if seen is not None and seen != compute_reply_digest(case.exchange):
        raise conflict("the run has another reply by now; look at it first")
    try:
        is_rated = verdict == LabelVerdict.RATED
        draw = require_draw(run, access.caller.user, design, case) if design and is_rated else CHOSEN
        return add_label(
            run, case, verdict, access.caller.user,
            value=value, note=note, is_blind=is_blind or draw is not CHOSEN, draw=draw, answers=answers,
        )  # fmt: skip
    except InvalidInput as error:  # fields are named as options of the command line
        raise InvalidInput(
            replace(problem, field=problem.field.removeprefix("--")) for problem in error.problems
        ) from None


def read_shown_labels(access: Access, run_id: str, *, history: bool = False) -> ShownLabels:
    """Return the labels of a run that the caller may see: their own, and all on what they have labelled.

    Raises:
        ApiProblem: 404: There is no such run.
        InvalidInput: A file of labels is damaged.
    """
    access.runs.find_folder(run_id)
    every, viewer = find_label_files(access.project.root).read(run_id), access.caller.user
    shown = list_shown(every, viewer, history=history)
    return ShownLabels(shown, len(every if history else list_current(every)) - len(shown))


def read_stats(access: Access, run_id: str, *, everything: bool = False) -> LabelStats:
    """Return what the labels of the namespace say about a run. `everything`: also those that the caller may not see.

    Raises:
        ApiProblem: 403: The caller may not count everything. Otherwise the run does not exist, is damaged, or is being
            prepared.
        InvalidInput: A file of labels is damaged.
    """
    from evalspec.curation.labels.measuring import compute_label_stats

    if everything and not access.caller.may(Scope.RUN):
        raise ApiProblem(
            HTTPStatus.FORBIDDEN, f"counting the labels that are hidden from you needs the scope {Scope.RUN}"
        )
    run = open_indexed_run(access, run_id)
    with run.keep_open():
        return compute_label_stats(run, run.files.read_all(), None if everything else access.caller.user)


def read_calibration(access: Access, run_id: str) -> JudgeCalibration:
    """Return how well the judge of a run agrees with everybody's blind random labels.

    Raises:
        ApiProblem: 404: The run has no judged metric, or nobody labelled a reply. Otherwise it does not exist, is
            damaged, or is being prepared.
        InvalidInput: A file of labels is damaged.
    """
    from evalspec.curation.labels.calibrating import calibrate_run

    run = open_indexed_run(access, run_id)
    labels = run.files.read_all()
    try:
        with run.keep_open():
            return calibrate_run(run, labels)
    except InvalidInput as error:
        raise ApiProblem(HTTPStatus.NOT_FOUND, str(error)) from error


def import_content(access: Access, run_id: str, content: bytes, form: str) -> ImportedLabels:
    """Add the labels of a file to a run, all or none. `form`: `jsonl` or `csv`.

    Only an admin may import labels of other people.

    Raises:
        InvalidInput: A line is invalid. Every such line is reported, and nothing is imported.
        ApiProblem: The run does not exist, is damaged, or is being prepared.
    """
    run, shown_as = open_indexed_run(access, run_id), f"labels{SUFFIXES[form]}"
    if content.count(b"\n") > _MOST_LINES:
        fix = f"split it, or import it on the machine of the project: evalspec labels import {shown_as}"
        raise InvalidInput(f"{shown_as} has more than {_MOST_LINES:,} lines", fix)
    explain = partial(_explain, access, run_id)
    with tempfile.TemporaryDirectory(prefix="evalspec-") as folder:
        place = Path(folder, shown_as)
        place.write_bytes(content)
        return add_labels(access.project.store, place, shown_as, lambda _: run, explain)


def _explain(access: Access, run_id: str, label: Label) -> Fault | None:
    """Return why the caller may not import a label."""
    if label.run != run_id:
        return KEYS["run"], f"'{label.run}' is another run", f"import it there; this run is {run_id}"
    if label.labeller != access.caller.user and not access.caller.may(Scope.ADMIN):
        said = f"'{label.labeller}' is somebody else"
        return KEYS["labeller"], said, "import your own labels, or let an admin import all"
    return None


def start_session(run: IndexedRun, by: str, chosen: Mapping[str, str]) -> LabelSession:
    """Return a session of a person. `chosen`: the filters of an address, as text.

    Raises:
        InvalidInput: A filter is invalid, or the run stores no texts.
    """
    design = read_design(chosen)
    if design is not None:
        with run.keep_open():
            return DrawnSession(run, by, design)
    metric, (size, seed, datasets) = chosen.get("metric"), _read_drawing(chosen)
    is_limited = chosen.get("state") == BEYOND
    wanted = CaseFilter(
        metric,
        datasets,
        parse_selection(tags=tuple(filter(None, [chosen.get("tag")])), size=size, seed=seed),
        failed=is_limited and metric is None,
        beyond=is_limited and metric is not None,
    )
    return LabelSession(run, by, wanted)


def read_design(chosen: Mapping[str, str]) -> LabelDesign | None:
    """Return how the replies are drawn that a person scores blindly; None if they label what is shown.

    Raises:
        InvalidInput: A number cannot be read, or there is no metric.
    """
    if "draw" not in chosen:
        return None
    if "metric" not in chosen:
        raise InvalidInput("choose the metric to score replies by")
    kind = chosen["draw"]
    return LabelDesign(chosen["metric"], DRAWS[kind], *_read_drawing(chosen), kind == "new")


def _read_drawing(chosen: Mapping[str, str]) -> tuple[int | None, int, tuple[str, ...]]:
    """Return how many samples of each dataset are drawn (None: all), the seed, and the datasets (empty: all)."""
    size = parse_number(chosen.get("size"), "the number of samples")
    seed = parse_number(chosen.get("seed"), "the seed")
    return size or None, seed or 0, tuple(filter(None, [chosen.get("dataset")]))


def parse_number(text: str | None, what: str) -> int | None:
    """Return a number of an address; None without one.

    Raises:
        InvalidInput: It is not a whole number.
    """
    if not text:
        return None
    if not text.isdecimal() or len(text) > MOST_DIGITS:
        raise InvalidInput(f"{what} is not a whole number")
    return int(text)
