"""What a server or worker is started with: projects, database and limits."""

import os
import re
from collections.abc import Iterable, Mapping
from enum import StrEnum
from ipaddress import ip_network
from pathlib import Path

from msgspec import Struct, field
from msgspec.structs import replace

from evalspec.base.errors import InvalidInput, Problem
from evalspec.base.trust import Trust
from evalspec.runs.store.run_log import MARK_NAME
from evalspec.runs.store.run_store import STORE, RunStore
from evalspec.service.webhooks import Webhook

MANIFEST = "agent.yaml"
DEFAULT_NAMESPACE = "default"
DATABASE_NAME = "service.db"

_HOST = re.compile(r"[A-Za-z0-9._-]+|[0-9A-Fa-f:.]+")
_NAMESPACE = re.compile(r"[A-Za-z0-9][\w-]{0,63}", re.ASCII)


class Isolation(StrEnum):
    """What keeps the code of a namespace from other namespaces and from the service."""

    UID = "uid"
    BUBBLEWRAP = "bubblewrap"
    OFF = "off"


class Project(Struct, frozen=True):
    """One namespace. Its runs, datasets, labels and gold sets are files in `folder`, which is absolute.

    `variables`: environment variables that its code gets, each with its name in the environment of the service.
    `is_limited`: its manifests get no others.
    """

    namespace: str
    folder: Path
    variables: Mapping[str, str] = {}
    is_limited: bool = False

    def find_variables(self, environ: Mapping[str, str]) -> Mapping[str, str]:
        """Return the variables of its manifests in an environment of the service."""
        declared = {name: environ[own] for name, own in self.variables.items() if own in environ}
        return declared if self.is_limited else {**environ, **declared}

    @property
    def root(self) -> Path:
        """The project's `.evalspec` folder."""
        return self.folder / STORE

    @property
    def store(self) -> RunStore:
        """The runs of the project."""
        return RunStore(self.root, self.root / "cache")  # one for each project, whatever the environment says

    def find_run_of(self, job_id: str) -> Path | None:
        """Return the folder of the run that a job started: its name ends with the last part of the job's id.

        A pushed run with such a name is not the job's: whoever pushed it chose its name.
        """
        ending = f"Z-{job_id.rpartition('_')[2]}"
        named = (folder for folder in self.store.list() if folder.name.endswith(ending))
        return next((folder for folder in named if not (folder / MARK_NAME).exists()), None)

    def find_log(self, job_id: str) -> Path:
        """Return the log of a job: what user code prints stays in its namespace."""
        return self.root / "jobs" / f"{job_id}.log"

    def limit(self, trust: Trust) -> Trust:
        """Return a policy for a process in the folder of the project: which files may be read and written."""
        places = {"folders": (self.folder,), "store": self.store.runs.resolve(), "here": self.folder}
        return replace(trust, **places) if trust.is_limited else trust

    @property
    def manifest(self) -> Path:
        """The project's manifest: agent.yaml."""
        return self.folder / MANIFEST


class ServiceLimits(Struct, frozen=True):
    """Limits of one namespace and of one request. None means unlimited. `push_bytes`: of one pushed run."""

    body_bytes: int = 16 * 1024 * 1024
    push_bytes: int = 256 * 1024 * 1024
    requests_a_minute: int = 600
    concurrent_runs: int = 2
    queued_jobs: int = 100
    calls_a_day: int | None = None
    retention_days: int | None = None
    audit_days: int = 365


class OidcSettings(Struct, frozen=True):
    """How people log in at an identity provider. `client_secret`: a reference such as `$env:NAME`; None: there is none.

    `user_claim`: names the user. `grants`: value of the claim `role_claim`, namespace and role. `default_role`:
    everywhere, for people whose roles are neither in a claim nor set in the pages; None: no role.
    """

    issuer: str
    client_id: str
    client_secret: str | None = None
    scope: str = "openid email profile"
    user_claim: str = "email"
    role_claim: str | None = None
    grants: tuple[tuple[str, str, str], ...] = ()
    default_role: str | None = None


class ServiceSettings(Struct, frozen=True):
    """The settings of a server or worker. `database`: a URL as SQLAlchemy reads it.

    `hosts`: values that the Host header may have, besides the names of this machine. `proxies`: addresses whose
    forwarded headers are believed. `trust`: what the projects may do. `alerts`: the webhook of each namespace that has
    one. `public_url`: the address of the server for links. `oidc`: None if people log in by links only.
    """

    projects: Mapping[str, Project]
    database: str
    host: str = "127.0.0.1"
    port: int = 8321
    hosts: tuple[str, ...] = ()
    proxies: tuple[str, ...] = ()
    workers: int = 1
    lease_seconds: float = 30.0
    limits: ServiceLimits = field(default_factory=ServiceLimits)
    isolation: Isolation = Isolation.OFF
    trust: Trust = Trust()
    alerts: Mapping[str, Webhook] = {}
    public_url: str | None = None
    oidc: OidcSettings | None = None

    @property
    def is_confined(self) -> bool:
        """Whether the code of namespaces is isolated."""
        return self.isolation is not Isolation.OFF


def parse_projects(given: Iterable[str]) -> dict[str, Project]:
    """Return the projects by namespace. `given`: `NS=DIR` each. The default is the working directory as `default`.

    Raises:
        InvalidInput: An entry cannot be read, a folder does not exist, or two namespaces share a name or files.
    """
    projects: dict[str, Project] = {}
    problems = []
    for entry in list(given) or [f"{DEFAULT_NAMESPACE}={Path.cwd()}"]:
        namespace, found, folder = entry.partition("=")
        place = Path(folder).absolute()
        if not found or not _NAMESPACE.fullmatch(namespace):
            fix = "write NAMESPACE=FOLDER; a namespace has letters, digits, - and _"
            problems.append(Problem(f"'{entry}' is not a project", fix, field="--project"))
        elif namespace in projects:
            problems.append(Problem(f"two projects are named '{namespace}'", "rename one", field="--project"))
        elif not place.is_dir():
            problems.append(Problem(f"{folder}: no such folder", "create it first", field="--project"))
        elif any(_overlap(place.resolve(), other.folder) for other in projects.values()):
            message = f"{folder}: in the folder of another namespace, or around it"
            problems.append(Problem(message, "give each namespace its own folder", field="--project"))
        else:
            projects[namespace] = Project(namespace, place.resolve())
    if problems:
        raise InvalidInput(problems)
    return projects


def declare_variables(projects: Mapping[str, Project], given: Iterable[str], *, is_limited: bool) -> dict[str, Project]:
    """Return projects with the variables of their code. `given`: `NS:NAME` or `NS:NAME=VARIABLE` each.

    `is_limited`: they get no others.

    Raises:
        InvalidInput: An entry cannot be read, or names an unknown namespace or a variable that is not set.
    """
    declared: dict[str, dict[str, str]] = {namespace: {} for namespace in projects}
    problems = []
    for entry in given:
        namespace, _, variable = entry.partition(":")
        name, _, own = variable.partition("=")
        if not name or namespace not in projects:
            fix = "write NAMESPACE:NAME or NAMESPACE:NAME=VARIABLE, with the namespace of a project"
            problems.append(Problem(f"'{entry}' is not a variable of a namespace", fix, field="--env"))
        elif (own or name) not in os.environ:
            problems.append(Problem(f"the variable {own or name} is not set", "export it first", field="--env"))
        else:
            declared[namespace][name] = own or name
    if problems:
        raise InvalidInput(problems)
    return {name: replace(one, variables=declared[name], is_limited=is_limited) for name, one in projects.items()}


def declare_alerts(
    projects: Mapping[str, Project], given: Iterable[str], *, allows_private: bool
) -> dict[str, Webhook]:
    """Return the webhooks by namespace. `given`: `NS:URL=SECRET` each, with the names of two variables.

    Raises:
        InvalidInput: An entry cannot be read, names an unknown namespace, or a variable has no fitting value.
    """
    declared: dict[str, Webhook] = {}
    problems = []
    for entry in given:
        namespace, _, variables = entry.partition(":")
        url, _, secret = variables.partition("=")
        if not url or not secret or namespace not in projects or namespace in declared:
            fix = "write NAMESPACE:URL=SECRET with the names of two variables, once for each namespace"
            problems.append(Problem(f"'{entry}' is not a webhook of a namespace", fix, field="--alert"))
            continue
        declared[namespace] = Webhook(url, secret, allows_private)
        try:
            declared[namespace].read()
        except InvalidInput as error:
            problems += error.problems
    if problems:
        raise InvalidInput(problems)
    return declared


def _overlap(folder: Path, other: Path) -> bool:
    """Return whether two folders share files, which the tokens of both namespaces would reach."""
    return folder.samefile(other) or folder.is_relative_to(other) or other.is_relative_to(folder)


def check_names(given: tuple[str, ...]) -> tuple[str, ...]:
    """Return the names of `--server-name`.

    Raises:
        InvalidInput: One is no host, which no request could name.
    """
    if odd := [name for name in given if not _HOST.fullmatch(name)]:
        fix = "write it like evals.example.com"
        raise InvalidInput(Problem(f"'{odd[0]}' is not the name of a host", fix, field="--server-name"))
    return given


def check_public_url(given: str | None) -> str | None:
    """Return the address of `--public-url`, to which a path can be added.

    Raises:
        InvalidInput: It is no address, so links that begin with it would lead nowhere.
    """
    if given is not None and not re.fullmatch(r"https?://[!-~]+", given):
        fix = "write it like https://evals.example.com"
        raise InvalidInput(Problem(f"'{given}' is no address", fix, field="--public-url"))
    return given and given.rstrip("/")


def parse_proxies(given: Iterable[str]) -> tuple[str, ...]:
    """Return addresses and networks of proxies as networks.

    Raises:
        InvalidInput: One is neither.
    """
    networks, problems = [], []
    for entry in given:
        try:
            networks.append(str(ip_network(entry, strict=False)))
        except ValueError:
            fix = "write an address or a network, such as 10.0.0.5 or 10.0.0.0/8"
            problems.append(Problem(f"'{entry}' is not an address", fix, field="--trusted-proxy"))
    if problems:
        raise InvalidInput(problems)
    return tuple(networks)


def default_database(*, is_new: bool = True) -> str:
    """Return the URL of the SQLite database in the working directory's `.evalspec` folder.

    Raises:
        InvalidInput: It may not be new, and does not exist: no server would know what is written to it.
    """
    path = STORE / DATABASE_NAME
    if not is_new and not path.exists():
        fix = "run this where `evalspec serve` runs, or name its database: --database sqlite:///PATH"
        raise InvalidInput(f"there is no database {path} in this folder", fix)
    return f"sqlite:///{STORE.absolute() / DATABASE_NAME}"
