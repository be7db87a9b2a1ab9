"""Read and write calibrations: small files for git with rates and counts, but no texts of samples or of the judge.

Anchors are in a file of their own beside a calibration, because they have the texts of replies.
"""

from pathlib import Path
from typing import TypeVar

from msgspec import to_builtins
from msgspec.structs import replace

from evalspec.base.errors import InvalidInput, Problem
from evalspec.base.json_text import compute_digest, render_lines
from evalspec.base.output_files import write_file
from evalspec.model.calibrations import JudgeAnchors, JudgeCalibration
from evalspec.model.typed_json import SCHEMA_VERSION, check_version, convert, parse_document, read_bytes
from evalspec.verdict.kept_documents import find_kept, refuse_edited, refuse_other_file

T = TypeVar("T", JudgeCalibration, JudgeAnchors)

KIND = "evalspec calibration"
ANCHORS_KIND = "evalspec anchors"
FOLDER = Path("evals") / "calibrations"


def calibration_path(manifest_folder: Path, name: str) -> Path:
    """Return the path of a calibration: `evals/calibrations/<name>.json` beside the manifest, or the named file."""
    return find_kept(manifest_folder, FOLDER, name)


def write_calibration(path: Path | str, calibration: JudgeCalibration) -> None:
    """Write a calibration without its disagreements. Only another calibration is overwritten.

    Raises:
        InvalidInput: The file exists and is something else.
        OSError: It cannot be written.
    """
    metrics = tuple(replace(one, disagreements=()) for one in calibration.metrics)
    _write(Path(path), replace(calibration, metrics=metrics), KIND, "a calibration")


def read_calibration(path: Path | str) -> JudgeCalibration:
    """Return a stored calibration.

    Raises:
        InvalidInput: The file is missing, damaged, or not a calibration.
    """
    fix = f"create it with `evalspec judge calibrate RUN --as {Path(path).stem}`"
    return _read(Path(path), JudgeCalibration, KIND, fix)


def anchors_path(calibration: Path) -> Path:
    """Return the path of the anchors of a calibration: `NAME.anchors.json` beside `NAME.json`."""
    return calibration.with_suffix(".anchors.json")


def write_anchors(path: Path | str, anchors: JudgeAnchors) -> None:
    """Write anchors. Only other anchors are overwritten.

    Raises:
        InvalidInput: The file exists and is something else.
        OSError: It cannot be written.
    """
    _write(Path(path), anchors, ANCHORS_KIND, "anchors")


def read_anchors(path: Path) -> JudgeAnchors:
    """Return stored anchors.

    Raises:
        InvalidInput: The file is missing, damaged, or has no anchors.
    """
    name = path.name.removesuffix(".anchors.json")
    fix = f"create it with `evalspec judge calibrate RUN --as {name} --anchors 50`"
    return _read(path, JudgeAnchors, ANCHORS_KIND, fix)


def _write(path: Path, kept: JudgeCalibration | JudgeAnchors, kind: str, what: str) -> None:
    refuse_other_file(path, kind, what)
    document = {"schemaVersion": SCHEMA_VERSION, "kind": kind, **to_builtins(kept)}
    document["sha256"] = compute_digest(document)
    path.parent.mkdir(parents=True, exist_ok=True)
    write_file(path, [f"{render_lines(document)}\n".encode()])


def _read(place: Path, kept: type[T], kind: str, fix: str) -> T:
    shown = str(place)
    if not place.exists():
        raise InvalidInput(Problem("there is no such file", fix, shown))
    document = parse_document(read_bytes(place), shown)
    if document.get("kind") != kind:
        raise InvalidInput(Problem(f"its kind is not '{kind}'", fix, shown))
    check_version(document, shown)
    refuse_edited(document, "file", f"restore it from git, or {fix}", shown)
    return convert(document, kept, shown)
