"""Calibration sessions: a person and the team agree again on what to flag. Files in `calibrations/`, append-only."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated

from msgspec import Struct
from pydantic import Field, StrictInt

from evalspec.base.errors import Problem
from evalspec.curation.gold.files import compute_hash, read_records, show, to_plain, write_record
from evalspec.curation.gold.flag_rates import list_streams
from evalspec.curation.gold.gold_set import open_set, read_config
from evalspec.curation.gold.granting import redact_note
from evalspec.curation.gold.identity import require_person
from evalspec.curation.gold.layout import CALIBRATIONS
from evalspec.curation.gold.ratings import list_revisions
from evalspec.curation.gold.schema import SetFile
from evalspec.curation.gold.values import Date, FileName, Strict, Text, render_now
from evalspec.model.curation import FlagRole

_Number = Annotated[StrictInt, Field(ge=0)]


class Calibration(Strict):
    """One session with a person. `reviewed`, `written`: the person's outcomes as reviewer and as author before it.

    These numbers say where the person's baseline restarts, so that no clock has to.
    """

    person: FileName
    by: FileName
    at: Date
    reviewed: _Number
    written: _Number
    note: Text | None = None


class CalibrationFile(Struct, frozen=True):
    """A recorded session and its file."""

    session: Calibration
    path: Path


def calibrate(
    root: Path | str, person: str, by: str, *, note: str | None = None, at: str | None = None
) -> CalibrationFile:
    """Record a calibration session with a person. Their baseline restarts, and alarms about them end.

    `by`: who records it. `at`: when it was, as ISO 8601; now by default.

    Raises:
        InvalidInput: A person is unknown, or a file of the set is invalid.
    """
    folder = Path(root)
    config = read_config(folder)
    for who in (person, by):
        require_person(config, who)
    streams = list_streams(list_revisions(open_set(folder)))
    session = Calibration(
        person=person,
        by=by,
        at=at or render_now(),
        reviewed=len(streams[FlagRole.REVIEWER].get(person, ())),
        written=len(streams[FlagRole.AUTHOR].get(person, ())),
        note=redact_note(folder, note or None),
    )
    earlier = [one for one in read_calibrations(folder, config, []) if one.session.person == person]
    path = folder / CALIBRATIONS / _name(session, len(earlier) + 1)
    write_record(path, session)
    return CalibrationFile(session, path)


def read_calibrations(root: Path, config: SetFile, problems: list[Problem]) -> list[CalibrationFile]:
    """Return the sessions of a set. Invalid files and edited ones are problems."""
    found = []
    for path, session in read_records(Calibration, root / CALIBRATIONS, problems):
        strangers = [who for who in (session.person, session.by) if who not in config.people]
        if strangers:
            message = f"'{strangers[0]}' is not one of the people in set.yaml"
            problems.append(Problem(message, "add the person to set.yaml", show(path)))
        elif not path.name.endswith(_name(session, 0)[1:]):
            message = "the calibration was edited after it was written"
            problems.append(Problem(message, "restore it from git, and record another one", show(path)))
        else:
            found.append(CalibrationFile(session, path))
    return found


def list_restarts(found: Sequence[CalibrationFile]) -> Mapping[tuple[str, FlagRole], list[int]]:
    """Return the numbers of outcomes after which the baseline of a person and role restarts."""
    restarts: dict[tuple[str, FlagRole], list[int]] = {}
    for one in found:
        restarts.setdefault((one.session.person, FlagRole.REVIEWER), []).append(one.session.reviewed)
        restarts.setdefault((one.session.person, FlagRole.AUTHOR), []).append(one.session.written)
    return restarts


def _name(session: Calibration, number: int) -> str:
    return f"{number}-{session.person}-{compute_hash(to_plain(session))[:8]}.yaml"
