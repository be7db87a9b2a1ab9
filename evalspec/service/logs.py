"""Structured logs: one JSON object a line on stderr, without questions, answers or other content."""

import json
import logging
import time
from typing import Any

_LOGGER = logging.getLogger("evalspec.service")


class _JsonLines(logging.Formatter):
    """Writes a record with its fields as one line."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the line."""
        moment = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(record.created))
        fields = {"at": f"{moment}.{int(record.msecs):03d}Z", "level": record.levelname.lower()}
        document = fields | {"event": record.getMessage()} | getattr(record, "fields", {})
        if record.exc_info:
            document["traceback"] = self.formatException(record.exc_info)
        return json.dumps(document, default=str)


def configure_logs() -> None:
    """Write logs as JSON lines on stderr."""
    handler = logging.StreamHandler()
    handler.setFormatter(_JsonLines())
    logging.basicConfig(handlers=[handler], level=logging.WARNING, force=True)
    _LOGGER.setLevel(logging.INFO)


def log_event(event: str, *, level: int = logging.INFO, **fields: Any) -> None:
    """Log an event with its fields: ids, counts and causes, never content."""
    _LOGGER.log(level, event, extra={"fields": fields})


def log_exception(event: str, **fields: Any) -> None:
    """Log the exception that is being handled with its traceback."""
    _LOGGER.exception(event, extra={"fields": fields})
