"""Labels: what people say about the replies and scores of stored runs, as files.

    from evalspec import labels

    labels.label("latest", "refund", "good", by="ada")

The commands `evalspec label` and `evalspec labels` call these functions. Names are imported on first use.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from evalspec.curation.labels.calibrating import apply as apply
    from evalspec.curation.labels.calibrating import calibrate as calibrate
    from evalspec.curation.labels.calibrating import choose_anchors as choose_anchors
    from evalspec.curation.labels.calibrating import stability as stability
    from evalspec.curation.labels.cases import LabelledRun as LabelledRun
    from evalspec.curation.labels.drawing import LabelDesign as LabelDesign
    from evalspec.curation.labels.drawn_session import DrawnSession as DrawnSession
    from evalspec.curation.labels.drawn_session import label as label
    from evalspec.curation.labels.drawn_session import list_drawn as list_drawn
    from evalspec.curation.labels.exchanging import export_labels as export_labels
    from evalspec.curation.labels.exchanging import import_labels as import_labels
    from evalspec.curation.labels.judged_run import CaseFilter as CaseFilter
    from evalspec.curation.labels.labelling import use_labels as use_labels
    from evalspec.curation.labels.listing import list_labels as list_labels
    from evalspec.curation.labels.measuring import measure_labels as measure_labels
    from evalspec.curation.labels.session import LabelSession as LabelSession
    from evalspec.verdict.correction.calibration_file import read_calibration as read_calibration
    from evalspec.verdict.correction.calibration_file import write_anchors as write_anchors
    from evalspec.verdict.correction.calibration_file import write_calibration as write_calibration

_PLACES = {
    "CaseFilter": "evalspec.curation.labels.judged_run",
    "DrawnSession": "evalspec.curation.labels.drawn_session",
    "LabelDesign": "evalspec.curation.labels.drawing",
    "LabelledRun": "evalspec.curation.labels.cases",
    "LabelSession": "evalspec.curation.labels.session",
    "apply": "evalspec.curation.labels.calibrating",
    "calibrate": "evalspec.curation.labels.calibrating",
    "choose_anchors": "evalspec.curation.labels.calibrating",
    "export_labels": "evalspec.curation.labels.exchanging",
    "import_labels": "evalspec.curation.labels.exchanging",
    "label": "evalspec.curation.labels.drawn_session",
    "list_drawn": "evalspec.curation.labels.drawn_session",
    "list_labels": "evalspec.curation.labels.listing",
    "measure_labels": "evalspec.curation.labels.measuring",
    "read_calibration": "evalspec.verdict.correction.calibration_file",
    "stability": "evalspec.curation.labels.calibrating",
    "use_labels": "evalspec.curation.labels.labelling",
    "write_anchors": "evalspec.verdict.correction.calibration_file",
    "write_calibration": "evalspec.verdict.correction.calibration_file",
}
"""By name: the module that defines it. No name is also that of a module here, which would hide it."""

__all__ = sorted(_PLACES)


def __getattr__(name: str) -> Any:
    if name not in _PLACES:
        raise AttributeError(f"module 'evalspec.curation.labels' has no attribute '{name}'")
    return getattr(import_module(_PLACES[name]), name)


def __dir__() -> list[str]:
    return __all__
