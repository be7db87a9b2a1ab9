"""Agreement and quality of a gold set with everything that a report can say of one.

`python tests/reporters/sample_curation.py` rewrites the golden file; read the difference before you commit it.
"""

import sys
from pathlib import Path

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parents[1]))

from evalspec.model import (
    AgreementMeasure,
    Coverage,
    Curation,
    DisputeSummary,
    DroppedTriple,
    FlagAlarm,
    FlagPeriod,
    FlagRate,
    Objection,
    ResolutionTime,
    SourceShare,
    SparseCell,
)
from evalspec.model.curation import FlagBaseline, FlagRole, SourceBalance
from evalspec.reports.terminal import render_view_terminal
from evalspec.reports.view.curation import build_curation_view

GOLDEN = Path(__file__).parent / "golden" / "curation.txt"
MONTHS = tuple(FlagPeriod(f"2026-{month:02}", 40, month) for month in range(1, 8))


def sample_curation(person: str = "cleo") -> Curation:
    """A demonstration with an alarm, a newcomer, disputes of every kind and sparse cells."""
    alarm = FlagAlarm(FlagBaseline.TEAM, 0.31, 0.08, 2.1e-6, 3.1e-5, 125)
    return Curation(
        name="help",
        demonstration=True,
        triples=1_840,
        states={"accepted": 1_712, "pending": 60, "disputed": 12, "dropped": 56},
        agreement=(
            AgreementMeasure(
                measure="raw agreement", value=0.91, interval=(0.89, 0.93), interval_method="bounded", triples=1_780
            ),
            AgreementMeasure(
                measure="Krippendorff's alpha",
                value=0.62,
                interval=(0.55, 0.69),
                interval_method="bootstrap",
                triples=1_780,
            ),
            AgreementMeasure(measure="Gwet's AC1", unknown="nothing has two blind ratings"),
            AgreementMeasure(
                measure="Cohen's kappa",
                reviewers=("ben", person),
                value=-0.04,
                triples=61,
                unknown="an interval needs 5 with disagreement, not 3",
            ),
        ),
        left_out={"imported": 44, "written after other reviews could be seen": 7},
        flag_rates=(
            FlagRate(person="ada", role=FlagRole.AUTHOR, reviewed=0, flagged=0),
            FlagRate(
                person=person,
                role=FlagRole.REVIEWER,
                reviewed=280,
                flagged=70,
                rate=0.25,
                interval=(0.2, 0.3),
                recent=0.34,
                own=0.23,
                team=0.08,
                calibrations=1,
                periods=MONTHS,
                alarms=(alarm,),
            ),
            FlagRate(
                person="dan",
                role=FlagRole.REVIEWER,
                reviewed=12,
                flagged=3,
                rate=0.25,
                interval=(0.05, 0.57),
                team=0.1,
                newcomer_left=38,
                periods=MONTHS[-1:],
            ),
        ),
        false_alarms=0.01,
        disputes=(
            DisputeSummary(category="numeric", disputes=24, outcomes={"revised": 12, "upheld": 10, "open": 2}),
            DisputeSummary(category=None, disputes=3, outcomes={"two flags": 3}),
        ),
        resolution_time=ResolutionTime(known=21, unknown=4, still_open=2, median=30.5, longest=412.0),
        dropped=(
            DroppedTriple(
                "refund",
                2,
                "ada",
                (
                    Objection("ben", "overstated", "numeric", "The block says 14 days."),
                    Objection(person, "wrong_block"),
                ),
            ),
        ),
        sources=(
            SourceShare(
                source="public",
                triples=1_100,
                share=0.64,
                interval=(0.62, 0.67),
                target=0.4,
                status=SourceBalance.UNBALANCED,
            ),
            SourceShare(
                source="customer",
                triples=600,
                share=0.35,
                interval=(0.33, 0.38),
                target=0.3,
                status=SourceBalance.BALANCED,
            ),
            SourceShare(source="synthetic", triples=0, target=0.3, status=SourceBalance.UNKNOWN),
        ),
        without_source=12,
        coverage=Coverage(
            keys=("domain", "failure_mode"),
            cells=12,
            needed=3,
            sparse=(
                SparseCell({"domain": "health", "failure_mode": "compound"}, 0),
                SparseCell({"domain": "security", "failure_mode": "numeric"}, 2),
            ),
            unplaced={"failure_mode": 9},
        ),
    )


def render_sample() -> str:
    """The report on 80 columns without colours."""
    return render_view_terminal(build_curation_view(sample_curation()), width=80, color=False)


if __name__ == "__main__":
    GOLDEN.write_text(render_sample(), encoding="utf-8")
