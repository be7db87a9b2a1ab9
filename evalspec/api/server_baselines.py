"""The gate's baseline, if a server has it: fetched before a run, or a copy of it if the server does not answer."""

import atexit
import hmac
import os
import re
import shutil
import tempfile
import time
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import quote, urlencode

from msgspec import DecodeError, Struct
from msgspec.json import decode, encode
from msgspec.structs import replace

from evalspec.base.errors import InvalidInput, Problem, ServiceError, StoreError, Unmeasurable
from evalspec.base.foreign_text import cut, inert
from evalspec.base.output_files import replace_file
from evalspec.base.plural import counted
from evalspec.base.text import shorten_name
from evalspec.base.trust import Act, current_trust, explain
from evalspec.inputs.manifest.gate_schema import LABEL, SERVER, CiGate, ServerBaseline
from evalspec.inputs.manifest.loader import LoadedManifest
from evalspec.model.base import built
from evalspec.model.typed_json import parse_document, read_bytes
from evalspec.model.verdicts import BaselineOrigin, count_days
from evalspec.runs.store.files import PRIVATE_FILE, store_errors
from evalspec.runs.store.run_store import BASELINES, RunStore, keep_baseline
from evalspec.runs.store.stored_run import StoredRun

if TYPE_CHECKING:
    from evalspec.api.server import PushServer, Say
    from evalspec.verdict.comparison.named_runs import NamedRun

_DEFAULT_DAYS = 14
_LARGEST_BYTES = 64 * 1024**2
_RETRIES = 2
_PROMOTE_SECONDS = 900.0
_UNKNOWN = 404
_ORIGIN = "origin"
_IN_USE_SECONDS = 86_400.0
"""How long another run may use a copy that has a newer one."""
_DIGEST = re.compile("[0-9a-f]{64}")
_LONGEST_NAME = 80
_DIGITS = 16
_MOST_CHARACTERS = 300
"""Of a server's words in a message that says more."""

Found = tuple[Path | None, BaselineOrigin]


class ServerChoice(NamedTuple):
    """The server that a command names; by default, that of EVALSPEC_TO. `allow_http`: also without TLS."""

    to: str | None = None
    allow_http: bool = False


OF_ENVIRONMENT = ServerChoice()


class ServedBaseline(Struct, frozen=True):
    """A baseline as a server sends it. `document`: the text of its file."""

    run_id: str
    promoted_by: str
    promoted_at: str
    sha256: str
    document: str = ""


def fetch_baseline(
    loaded: LoadedManifest,
    store: RunStore,
    server: ServerChoice = OF_ENVIRONMENT,
    *,
    resumed: StoredRun | None = None,
) -> LoadedManifest:
    """Return the manifest with the file of its baseline, if a server has that. Only this server is asked.

    `resumed`: the run to resume, which keeps its baseline.

    Raises:
        InvalidInput: The address or the token is not usable, or the baseline was edited.
        Unmeasurable: The server answers something else.
        StoreError: Neither the copy nor a temporary file can be written.
    """
    wanted = loaded.manifest.spec.evaluation.ci_gate.server_baseline
    if wanted is None or loaded.fetched is not None:
        return loaded
    if resumed is None:
        policy = loaded.manifest.spec.evaluation.ci_gate
        found: Found | None = _find(policy, wanted, loaded.path.parent, store, server)
    else:
        known, path = resumed.fingerprint.baseline, resumed.baseline
        found = None if known is None else (path if path.exists() else None, known)
    return replace(loaded, fetched=found)


def promote_on_server(
    run_id: str, name: str, asked: dict[str, Any], server: "PushServer", say: "Say"
) -> ServedBaseline:
    """Promote a run that the server has. `asked`: `add` and `reason`, as options of `evalspec runs promote`.

    Raises:
        InvalidInput: The token does not permit that.
        Unmeasurable: The server refused that, or could not be reached.
    """
    _check_label(name, "--as")
    body = encode({"run_id": run_id, **asked})
    try:
        return _ask(server, "POST", f"/v1/baselines/{quote(name, safe='')}", body, say=say, seconds=_PROMOTE_SECONDS)
    except ServiceError as error:
        if error.status == _UNKNOWN:
            error = ServiceError(f"{server.url} has no such run. push it first: evalspec runs push {run_id}")
        raise server.explain(f"run {run_id} was not promoted", error) from error


def read_served(name: str, store: RunStore, server: ServerChoice) -> "NamedRun":
    """Return what was promoted on a server as `name`, found as by a gate of this folder. A note says where it is from.

    Raises:
        InvalidInput: It is not the name of a baseline of a server, or as of `fetch_baseline`.
        Unmeasurable: The server has none, or does not answer and there is no usable copy.
    """
    from evalspec.verdict.comparison.run_files import read_run_file

    wanted = ServerBaseline(name.removeprefix(SERVER))
    _check_label(wanted.name)
    path, origin = _find(CiGate(baseline=name), wanted, Path(), store, server)
    said = origin.describe(datetime.now(UTC).isoformat())
    if path is None:
        raise Unmeasurable(said)
    found = read_run_file(path, name)
    return replace(found, notes=(*found.notes, said))


def _check_label(name: str, field: str = "") -> None:
    if not LABEL.fullmatch(name):
        fix = "use letters, digits and ._-, as in server:main; the newest run of a branch is only for gates"
        raise InvalidInput(Problem(f"'{name}' is not the name of a baseline of a server", fix, field=field))


def _ask(server: "PushServer", method: str, place: str, body: bytes = b"", **settings: Any) -> ServedBaseline:
    from evalspec.api.loops import run_coroutine
    from evalspec.api.server import open_server

    async def ask() -> ServedBaseline:
        async with open_server(server, settings.pop("say", lambda _: None)) as calls:
            return await calls.request(method, place, ServedBaseline, body, most=_LARGEST_BYTES, **settings)

    return run_coroutine(ask)


def _find(policy: CiGate, wanted: ServerBaseline, folder: Path, store: RunStore, chosen: ServerChoice) -> Found:
    """Return a baseline and its origin. `folder`: beside whose baselines of git it may be."""
    from evalspec.api.server import TOKEN_VARIABLE, choose_server

    origin, now = BaselineOrigin(policy.baseline or ""), datetime.now(UTC).isoformat(timespec="seconds")
    if current_trust().is_limited or not os.environ.get(TOKEN_VARIABLE, "").strip():
        why = "an untrusted project gets no token" if current_trust().is_limited else f"{TOKEN_VARIABLE} is not set"
        return _read_git(folder, wanted, origin, why)
    to = chosen.to or os.environ.get("EVALSPEC_TO")
    server = choose_server(to, os.environ, what=f" for baseline {origin.shown}", allow_http=chosen.allow_http)
    origin = replace(origin, server=server.url)
    branch = {} if wanted.branch is None else {"branch": wanted.branch, "green": str(wanted.is_green).lower()}
    place = f"/v1/baselines/{quote(wanted.name, safe='')}" + (f"?{urlencode(branch)}" if branch else "")
    name = origin.name if wanted.branch is None else f"{origin.name}@{wanted.name}"
    kept_in = _name_folder(name, server.url, server.token)
    try:
        served = _ask(server, "GET", place, retries=_RETRIES)
    except ServiceError as error:
        if error.status == _UNKNOWN:
            return None, replace(origin, problem=inert(f"{server.url}: {error}"))
        if not error.retryable:
            raise server.explain(f"baseline {origin.shown} of {server.url}", error) from error
        why = f"{server.url} did not answer ({cut(inert(str(error)), _MOST_CHARACTERS)})"
        return _read_copy(store, kept_in, origin, why, policy.baseline_max_age or _DEFAULT_DAYS, now)
    found, content = _read_answer(replace(origin, fetched_at=now), served)
    try:
        return _keep_copy(store, kept_in, found, content), found
    except StoreError as error:
        why = f"the offline copy cannot be written ({cut(inert(str(error)), _MOST_CHARACTERS)})"
        return _write_temporary(found, content), replace(found, unkept=why)


def _read_git(folder: Path, wanted: ServerBaseline, origin: BaselineOrigin, why: str) -> Found:
    """Return the copy that git has of a baseline, or of the anchor of a branch's newest run."""
    from evalspec.verdict.comparison.baseline import baseline_path

    path = baseline_path(folder, wanted.name)
    if explain(Act.READ_FILE, str(path)) is not None or not path.is_file():
        fix = f"there is no copy of baseline {origin.shown} in git at {path}: commit one, or set EVALSPEC_TOKEN"
        return None, replace(origin, problem=f"{why}, and {fix}")
    return path, _describe(read_bytes(path), str(path), replace(origin, copy_of=f"{why}, so {path} of git is used"))


def _read_answer(origin: BaselineOrigin, served: ServedBaseline) -> tuple[BaselineOrigin, bytes]:
    """Return the origin of what the server sent, and the document.

    Raises:
        InvalidInput: The document is not a baseline, or was edited.
        Unmeasurable: It is not even text.
    """
    shown = f"{origin.server}: baseline {origin.shown}"
    origin = replace(origin, promoted_by=served.promoted_by, promoted_at=served.promoted_at)
    try:
        content = served.document.encode()
        return _describe(content, shown, origin), content
    except (UnicodeError, RecursionError) as error:
        raise Unmeasurable(f"{shown}: the server sent something else; check EVALSPEC_TO") from error


def _name_folder(name: str, url: str, token: str) -> str:
    """Return the folder of the copy of a baseline, below those of the store: one for each server and token.

    What another token fetched may be of another project. The token is only in a digest, and is too random to be guessed
    from it. A long name ends with a digest, because file systems limit names to 255 bytes.
    """
    mark = hmac.digest(url.encode(), f"{token} {name}".encode(), "sha256").hex()[:_DIGITS]
    return f"{shorten_name(quote(name, safe=''), _LONGEST_NAME)}/{mark}"


def _describe(content: bytes, shown_as: str, origin: BaselineOrigin) -> BaselineOrigin:
    """Return the origin with the run and the digest of a document, and texts that are safe to show.

    Raises:
        InvalidInput: It is not a baseline, or was edited.
    """
    from evalspec.verdict.comparison.baseline import build_baseline

    document = parse_document(content, shown_as)
    run = build_baseline(document, shown_as).run.id
    said = {"run": run, "promoted_by": origin.promoted_by, "promoted_at": origin.promoted_at}
    shown = {name: text and cut(inert(text), _MOST_CHARACTERS) for name, text in said.items()}
    return replace(origin, **shown, sha256=document["sha256"])


def _keep_copy(store: RunStore, folder: str, origin: BaselineOrigin, content: bytes) -> Path:
    """Keep a copy of what the server sent, and return its path.

    Raises:
        StoreError: It cannot be written.
    """
    path = keep_baseline(store.root, folder, origin.sha256 or "", content)
    with store_errors(path):
        replace_file(path.with_name(_ORIGIN), [encode(origin)], mode=PRIVATE_FILE)
        for other in set(path.parent.glob("*.json")) - {path}:
            with suppress(OSError):  # another run removed it, or it belongs to somebody else
                if time.time() - other.stat().st_mtime > _IN_USE_SECONDS:
                    other.unlink()
    return path


def _write_temporary(origin: BaselineOrigin, content: bytes) -> Path:
    """Write what the server sent to a file that is there until this process ends, and return its path.

    Raises:
        StoreError: It cannot be written.
    """
    path = Path(tempfile.gettempdir())
    with store_errors(path):
        folder = tempfile.mkdtemp(prefix="evalspec-")
        atexit.register(shutil.rmtree, folder, ignore_errors=True)
        path = Path(folder, f"{origin.sha256}.json")
        path.write_bytes(content)
    return path


def _read_copy(store: RunStore, name: str, origin: BaselineOrigin, why: str, most_days: int, now: str) -> Found:
    """Return the copy that an earlier run kept, unless it is too old. `name`: of its folder. `why`: it is used.

    Raises:
        InvalidInput: It was edited.
    """
    folder = store.root / BASELINES / name
    kept = _read_origin(folder / _ORIGIN, origin)
    path = folder / f"{kept and kept.sha256}.json"
    if kept is None or not path.is_file():
        return None, replace(origin, problem=f"{why}, and {_explain_missing(folder, origin)}")
    try:
        kept = _describe(read_bytes(path), str(path), replace(kept, copy_of=f"{why}, so a copy is used"))
    except InvalidInput as error:
        fix = f"remove it; it is fetched again once {origin.server} answers"
        raise InvalidInput([replace(problem, fix=fix) for problem in error.problems]) from error
    days = count_days(kept.fetched_at, now)
    if days is None or not 0 <= days <= most_days:
        age = "undated" if days is None else "dated in the future" if days < 0 else f"{counted(days, 'day')} old"
        limit = f"ciGate.baselineMaxAge is {counted(most_days, 'day')}"
        problem = f"the copy of baseline {origin.shown} is {age}, and {limit}"
        return None, replace(kept, copy_of=why, problem=problem)
    return path, kept


def _read_origin(path: Path, wanted: BaselineOrigin) -> BaselineOrigin | None:
    """Return the origin of a copy; None without one, or if it is damaged or of another baseline."""
    try:
        kept = decode(path.read_bytes(), type=built(BaselineOrigin))
    except (OSError, DecodeError, ValueError, RecursionError):  # msgspec raises a ValueError for what is not UTF-8
        return None
    is_wanted = (kept.name, kept.server) == (wanted.name, wanted.server)
    return kept if is_wanted and _DIGEST.fullmatch(kept.sha256 or "") else None


def _explain_missing(folder: Path, origin: BaselineOrigin) -> str:
    """Return why a folder has no copy to use."""
    if (folder / _ORIGIN).exists() and _read_origin(folder / _ORIGIN, origin) is None:
        return f"the copy of baseline {origin.shown} is damaged: remove {folder}"
    others = (path for path in folder.parent.glob(f"*/{_ORIGIN}") if path.parent != folder)
    if any(_read_origin(path, origin) is not None for path in others):
        return f"the copy of baseline {origin.shown} was fetched with another token"
    return f"there is no copy of baseline {origin.shown}"
