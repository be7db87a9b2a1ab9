"""The key of an endpoint: a fixed one, or what a command prints, renewed before it expires."""

import asyncio
import json
import shlex
import subprocess
from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime
from io import BytesIO
from pathlib import Path
from threading import Event, Thread, Timer
from time import time
from typing import NamedTuple

from msgspec import Struct

from evalspec.base.errors import ServiceError
from evalspec.base.text import decode_reply
from evalspec.base.trust import Act, require
from evalspec.inputs.manifest.judge_schema import KeyCommand

_LONGEST_SECONDS = 60.0
_MOST_PRINTED = 64 * 1024
_REST_SECONDS = 1.0
"""To read what an ended command has printed, which is at most what a pipe holds."""
_MARGIN_SECONDS = 60.0
"""A key is renewed so long before it expires, or at half of its time if that is later."""
_FORMS = 'one line with the token, or {"token": "…", "expiresAt": "2026-01-31T12:00:00Z"}'
_SEE_WHY = "run it in a terminal to see why"


def _forget(_key: str) -> None:
    """Do nothing."""


class KeyPlace(Struct, frozen=True):
    """Where commands that print keys run, and what is called with each key, so that it is redacted."""

    folder: Path = Path()
    learn: Callable[[str], None] = _forget


class _Token(NamedTuple):
    """`renew_at`: seconds since the epoch; infinite if the key does not say when it expires."""

    key: str
    renew_at: float


class KeySource:
    """The key of one endpoint. Requests that need a new one at the same time share one run of the command."""

    def __init__(
        self, declared: str | KeyCommand | None, setting: str, place: KeyPlace, learn: Callable[[str], None]
    ) -> None:
        """`setting`: the section of the manifest. `learn`: called with each key before it is used."""
        self._command = declared.command if isinstance(declared, KeyCommand) else None
        self._field = f"{setting}.apiKey.command"
        self._place = place
        self._learn = learn
        self._turn = asyncio.Lock()
        fixed = declared.strip() if isinstance(declared, str) else ""
        self._token = None if self._command else _Token(fixed, float("inf"))

    async def get(self, rejected: str | None = None) -> str:
        """Return the key; empty if there is none. `rejected`: a key that must not be returned again, if another exists.

        Raises:
            ServiceError: the command fails. The message has no output of it.
            Refused: the project's commands are not trusted.
        """
        async with self._turn:
            if self._token is None or self._token.key == rejected or time() >= self._token.renew_at:
                self._token = await self._renew(self._command) if self._command else self._token
            return self._token.key if self._token else ""

    @property
    def may_change(self) -> bool:
        """Whether there may be another key after one was rejected."""
        return self._command is not None

    async def _renew(self, command: list[str]) -> _Token:
        require(Act.PRINT_KEY, shlex.join(command))
        token = self._parse(await self._run(command))
        for learn in (self._learn, self._place.learn):
            learn(token.key)
        return token

    async def _run(self, command: list[str]) -> bytes:
        """Return what the command prints. Its errors are not shown, because they may contain credentials."""
        from evalspec.targets.agents.process import NEW_GROUP, kill_group

        try:
            process: subprocess.Popen[bytes] = subprocess.Popen(
                command,
                cwd=self._place.folder,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                bufsize=0,  # a read returns what is there
                **NEW_GROUP,
            )
        except (OSError, ValueError) as error:
            reason = getattr(error, "strerror", None) or "it has a forbidden character"
            raise self._fail(f"cannot be started: {reason}; write a program and its arguments as a list") from None
        is_late = Event()

        def stop() -> None:
            is_late.set()
            kill_group(process)

        timer = Timer(_LONGEST_SECONDS, stop)
        timer.start()
        try:
            printed = await asyncio.to_thread(_read_output, process)
        except asyncio.CancelledError:
            kill_group(process)
            raise
        finally:
            timer.cancel()
        if is_late.is_set():
            raise self._fail(f"printed no key within {_LONGEST_SECONDS:g} s; {_SEE_WHY}")
        if len(printed) > _MOST_PRINTED:
            raise self._fail(f"printed more than {_MOST_PRINTED // 1024} KiB; print {_FORMS}")
        if process.returncode != 0:
            raise self._fail(f"ended with status {process.returncode}; {_SEE_WHY}")
        return printed

    def _parse(self, printed: bytes) -> _Token:
        text = decode_reply(printed).strip()
        fields: dict[str, object] = {} if text.startswith("{") else {"token": text}
        if not fields:
            with suppress(ValueError, RecursionError):
                fields = json.loads(text)
        key, expires = fields.get("token"), fields.get("expiresAt")
        if not isinstance(key, str) or len(key.split()) != 1 or not key.isascii() or not key.isprintable():
            raise self._fail(f"printed no key; print {_FORMS}")
        now, end = time(), float("inf") if expires is None else self._parse_time(expires)
        if end <= now:
            raise self._fail("printed a key that has expired; check the clock of this machine")
        return _Token(key.strip(), max(end - _MARGIN_SECONDS, (now + end) / 2))

    def _parse_time(self, text: object) -> float:
        with suppress(ValueError, TypeError):
            moment = datetime.fromisoformat(str(text))
            return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()
        raise self._fail(f"printed an expiresAt that is no time; print {_FORMS}")

    def _fail(self, message: str) -> ServiceError:
        return ServiceError(f"the command in {self._field} {message}", fatal=True)


def _read_output(process: "subprocess.Popen[bytes]") -> bytes:
    """Return what a process prints until its end, or a byte more than it may, after which it is killed.

    What it has started is killed at its end, and its output is not waited for, whoever else may still write to it.
    """
    from evalspec.targets.agents.process import kill_group

    printed = bytearray()

    def read() -> None:
        with process.stdout or BytesIO() as output:
            while len(printed) <= _MOST_PRINTED and (more := output.read(_MOST_PRINTED)):
                printed.extend(more)
        if len(printed) > _MOST_PRINTED:
            kill_group(process)

    reader = Thread(target=read, daemon=True)
    reader.start()
    process.wait()
    kill_group(process)
    reader.join(_REST_SECONDS)
    return bytes(printed)
