"""References in a manifest: `$env:NAME`, `$secret:name`, `$file:path`, `$func:name`, and `${env:NAME}` inside text.

Only references that a run needs must have a value. Values from the environment and secrets are redacted in all
output, also if the run does not need them, unless the reference ends with `:public`.
"""

import os
import re
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from evalspec.base.errors import Problem
from evalspec.base.trust import Act, explain, permitted_variables
from evalspec.inputs.manifest.credentials import find_literals, find_secrets
from evalspec.inputs.manifest.redaction import Redaction
from evalspec.inputs.manifest.yaml_source import find_texts, render_path

_WHOLE = re.compile(r"^\$(env|secret|file|func):(.*)$", re.DOTALL)
_INLINE = re.compile(r"\$\{(env|secret):([^}]*)\}")
_MISSPELLED = re.compile(r"(?:^\$|\$\{)(?!(?:env|secret|file|func):)(?i:env|secret|file|func):")
_SECRETS = re.compile(r"(?:^\$|\$\{)(env|secret):([^}]*)")
_VARIABLE = re.compile(r"\$(?:\{env:|env:)([A-Za-z_]\w*)", re.ASCII)
_COMMENT = re.compile(r"(^|\s)#.*")
_ENV_NAME = re.compile(r"^[A-Za-z_][A-Za-z0-9_]*$")
_PUBLIC = ":public"
_PUBLIC_REFERENCE = re.compile(r"\$\{?env:\w+:public\b")

_FUNCTIONS: Mapping[str, Callable[[datetime], str]] = {
    "now_iso": lambda now: now.isoformat(timespec="milliseconds").replace("+00:00", "Z"),
    "now_unix": lambda now: str(int(now.timestamp())),
    "now_date": lambda now: now.date().isoformat(),
}


def is_public(text: str) -> bool:
    """Return whether a text refers to a value that is not redacted."""
    return _PUBLIC_REFERENCE.search(text) is not None


def find_variables(manifest: str) -> list[str]:
    """Return the environment variables that the text of a manifest refers to outside of comments, by name."""
    return sorted(set(_VARIABLE.findall(_COMMENT.sub("", manifest))))


class UnresolvedReference(Exception):
    """A reference that cannot be resolved. `message` and `fix` become a Problem at its field."""

    def __init__(self, message: str, fix: str) -> None:
        super().__init__(message)
        self.message = message
        self.fix = fix

    def at(self, file: str, line: int | None, field: str) -> Problem:
        """Return the error as a problem of one field."""
        return Problem(self.message, self.fix, file, line, field)


class RefusedReference(UnresolvedReference):
    """A reference to something that an untrusted manifest may not read."""


class References:
    """The references of a manifest, resolved from the environment and the manifest's folder.

    `redaction` collects the values to redact: those of references, of variables that look like secrets, and literals.
    """

    def __init__(self, base: Path, environ: Mapping[str, str] | None = None) -> None:
        self.base = base
        self._environ = os.environ if environ is None else environ
        self.redaction = Redaction()
        for name, value in permitted_variables(self._environ).items():
            for number, secret in enumerate(find_secrets(name, value)):
                part = "" if secret == value else f"-password{number or ''}"
                self.redaction.add(f"env:{name}{part}", secret, is_ambient=True)

    def renew(self) -> "References":
        """Return new references with the same folder and environment."""
        return References(self.base, self._environ)

    def resolve(self, text: str) -> str:
        """Return the text with its references replaced by their values.

        Raises:
            UnresolvedReference: the variable, secret, file or function does not exist, or the reference is malformed.
        """
        whole, misspelled = _WHOLE.match(text), _MISSPELLED.search(text)
        if whole:
            return self._resolve_one(whole[1], whole[2])
        if misspelled:
            fix = f"write {misspelled[0].lower()}"
            raise UnresolvedReference(f"'{misspelled[0]}' begins no reference, so it would be sent as it is", fix)
        return _INLINE.sub(lambda found: self._resolve_one(found[1], found[2]), text)

    def path(self, text: str) -> Path:
        """Return the file of a path with or without `$file:`, relative to the manifest's folder, without reading it."""
        name = text.removeprefix("$file:")
        path = self.base / (name if text.startswith("$file:") else self.resolve(text))
        _refuse(Act.READ_FILE, str(path))
        return path

    def redact(self, text: str) -> str:
        """Return the text with every value from a variable or secret replaced by a placeholder, except public ones."""
        return self.redaction.mask(text)

    def redact_data(self, value: Any) -> Any:
        """Apply `redact` to every string in a JSON value, including keys."""
        return self.redaction.mask_data(value)

    def learn(self, value: Any) -> None:
        """Redact the variables, secrets and literal credentials of a manifest from now on. Unset ones are skipped."""
        for _, text in find_texts(value):
            self.recover(map(":".join, _SECRETS.findall(text)))
        found: dict[str, list[str]] = {}
        for place, literal in find_literals(value):
            found.setdefault(render_path(place), []).append(literal)
        for name, literals in found.items():
            for number, literal in enumerate(literals):
                self.redaction.add(f"literal:{name}{f'-{number}' if number else ''}", literal)

    def recover(self, references: Iterable[str]) -> None:
        """Resolve the references that a stored run has redacted, so that it can be restored. Unset ones are skipped."""
        for reference in references:
            with suppress(UnresolvedReference, KeyError):  # a literal cannot be looked up
                self._resolve_one(*reference.split(":", 1))

    def _resolve_one(self, kind: str, name: str) -> str:
        return {"env": self._env, "secret": self._secret, "file": self._file, "func": self._func}[kind](name)

    def _env(self, given: str) -> str:
        name = given.removesuffix(_PUBLIC)
        if not _ENV_NAME.match(name):
            variable, colon, _ = name.partition(":")
            fix = f"write $env:{variable}{_PUBLIC}" if colon else "write $env:NAME, with letters, digits and _"
            raise UnresolvedReference(f"'{name}' is not a variable name", fix)
        _refuse(Act.READ_VARIABLE, name)
        value = self._environ.get(name)
        if not value:
            state = "is empty" if value == "" else "is not set"
            raise UnresolvedReference(f"environment variable {name} {state}", f"export {name}=… before the run")
        if name == given:
            self.redaction.add(f"env:{name}", value)
        else:
            self.redaction.drop_ambient(f"env:{name}")
        return value

    def _secret(self, name: str) -> str:
        if name.endswith(_PUBLIC):
            raise UnresolvedReference("a secret cannot be public", "write $secret:name, or use $env:NAME:public")
        backend = self._environ.get("AGENTSPEC_SECRET_BACKEND") or "env"
        if backend != "env":
            fix = "unset AGENTSPEC_SECRET_BACKEND and export the secret as a variable"
            raise UnresolvedReference(f"secret backend '{backend}' is not supported", fix)
        variable = "AGENTSPEC_SECRET_" + name.upper().replace("-", "_")
        _refuse(Act.READ_VARIABLE, variable)
        value = self._environ.get(variable)
        if not value:
            raise UnresolvedReference(f"secret '{name}' is not set", f"export {variable}=… before the run")
        self.redaction.add(f"secret:{name}", value)
        return value

    def _file(self, name: str) -> str:
        path = Path(os.path.realpath(self.base / name))  # does not raise if links form a loop
        if not path.is_relative_to(self.base.resolve()):
            raise RefusedReference(
                f"$file:{name} is outside the manifest's folder", "move the file into the manifest's folder"
            )
        _refuse(Act.READ_FILE, str(path))
        try:
            return path.read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            reason = getattr(error, "strerror", None) or "not UTF-8 text"
            raise UnresolvedReference(f"$file:{name} cannot be read: {reason}", "check the path") from error

    def _func(self, name: str) -> str:
        if name not in _FUNCTIONS:
            raise UnresolvedReference(f"unknown function '{name}'", f"known: {', '.join(_FUNCTIONS)}")
        return _FUNCTIONS[name](datetime.now(UTC))


def _refuse(act: Act, subject: str) -> None:
    refused = explain(act, subject)
    if refused is not None:
        raise RefusedReference(*refused)
