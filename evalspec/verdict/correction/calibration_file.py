"""Read and write calibrations: small files for git with rates and counts, but no texts of samples or of the judge."""

from pathlib import Path

from msgspec import to_builtins
from msgspec.structs import replace

from evalspec.base.errors import InvalidInput, Problem
from evalspec.base.json_text import render_lines
from evalspec.base.output_files import write_file
from evalspec.model.calibrations import JudgeCalibration
from evalspec.model.typed_json import SCHEMA_VERSION, check_version, convert, parse_document, read_bytes
from evalspec.verdict.comparison.baseline import find_kept, refuse_other_file

KIND = "evalspec calibration"
FOLDER = Path("evals") / "calibrations"


def calibration_path(manifest_folder: Path, name: str) -> Path:
    """Return the path of a calibration: `evals/calibrations/<name>.json` beside the manifest, or the named file."""
    return find_kept(manifest_folder, FOLDER, name)


def write_calibration(path: Path, calibration: JudgeCalibration) -> None:
    """Write a calibration without its disagreements. Only another calibration is overwritten.

    Raises:
        InvalidInput: The file exists and is something else.
        OSError: It cannot be written.
    """
    refuse_other_file(path, KIND, "a calibration")
    metrics = tuple(replace(one, disagreements=()) for one in calibration.metrics)
    document = {"schemaVersion": SCHEMA_VERSION, "kind": KIND, **to_builtins(replace(calibration, metrics=metrics))}
    path.parent.mkdir(parents=True, exist_ok=True)
    write_file(path, [f"{render_lines(document)}\n".encode()])


def read_calibration(path: Path | str) -> JudgeCalibration:
    """Return a stored calibration.

    Raises:
        InvalidInput: The file is missing, damaged, or not a calibration.
    """
    place, shown = Path(path), str(path)
    if not place.exists():
        fix = f"create it with `evalspec judge calibrate RUN --as {place.stem}`"
        raise InvalidInput(Problem("there is no such calibration", fix, shown))
    document = parse_document(read_bytes(place), shown)
    if document.get("kind") != KIND:
        raise InvalidInput(Problem("not a calibration", "use a file of `evalspec judge calibrate --as NAME`", shown))
    check_version(document, shown)
    return convert(document, JudgeCalibration, shown)
