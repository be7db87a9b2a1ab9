"""Where runs are kept: `.evalspec/runs/<UTC time>-<short id>/`, beside the project and never in the home directory."""

import secrets
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path

from evalspec.store.files import store_errors, sync_folder
from evalspec.store.run_log import Redactor, RunLog


class RunStore:
    """The runs of one project. `root` is its `.evalspec` folder; nothing is made before the first run."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.runs = root / "runs"

    def create(self, now: datetime, short_id: str | None = None, *, redact: Redactor) -> RunLog:
        """Open a new run, named for the time and eight hexadecimal digits that keep apart runs of one second.

        Raises:
            StoreError: the folder cannot be made, or a run of that name exists.
        """
        folder = self.runs / f"{now.astimezone(UTC):%Y%m%dT%H%M%SZ}-{short_id or secrets.token_hex(4)}"
        with store_errors(folder):
            self.runs.mkdir(parents=True, exist_ok=True)
            # Answers and questions are nobody's business in a repository.
            with suppress(FileExistsError), (self.root / ".gitignore").open("x", encoding="utf-8") as ignore:
                ignore.write("*\n")
            folder.mkdir()
            sync_folder(self.runs)
        return RunLog(folder, redact=redact)
