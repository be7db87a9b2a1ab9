"""Labels: what people say about the replies and scores of stored runs, as files.

    from evalspec import labels

    labels.label("latest", "refund", "good", by="ada")

The commands `evalspec label` and `evalspec labels` call these functions. Names are imported on first use.
"""

from typing import TYPE_CHECKING

from evalspec.base.lazy_names import attach

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

_NAMES = {
    "evalspec.curation.labels.calibrating": "apply calibrate choose_anchors stability",
    "evalspec.curation.labels.cases": "LabelledRun",
    "evalspec.curation.labels.drawing": "LabelDesign",
    "evalspec.curation.labels.drawn_session": "DrawnSession label list_drawn",
    "evalspec.curation.labels.exchanging": "export_labels import_labels",
    "evalspec.curation.labels.judged_run": "CaseFilter",
    "evalspec.curation.labels.labelling": "use_labels",
    "evalspec.curation.labels.listing": "list_labels",
    "evalspec.curation.labels.measuring": "measure_labels",
    "evalspec.curation.labels.session": "LabelSession",
    "evalspec.verdict.correction.calibration_file": "read_calibration write_anchors write_calibration",
}
"""By module: the names that it defines. No name is also that of a module here, which would hide it."""

__all__, __getattr__, __dir__ = attach(__name__, _NAMES)
