"""Who may do what: the token or session of a request, the namespace that it names, and the scope that a route needs."""

import asyncio
from collections.abc import Callable, Mapping
from http import HTTPStatus
from pathlib import Path
from typing import Annotated

from fastapi import Depends, Header, Request
from msgspec import Struct, field
from sqlalchemy import Engine

from evalspec.service.audit import record
from evalspec.service.oidc import Issuer
from evalspec.service.origins import SESSION_COOKIE
from evalspec.service.parameters import refuse_unknown_parameters
from evalspec.service.problems import ApiProblem
from evalspec.service.run_index import RunIndex
from evalspec.service.sample_builds import SampleBuilds
from evalspec.service.settings import Project, ServiceSettings
from evalspec.service.tokens import SESSION, Caller, Scope, find_caller

NAMESPACE_HEADER = "X-Namespace"


class Service(Struct, frozen=True):
    """What every request of one server shares. `runs`: the index of each namespace. `stopping`: set at shutdown.

    `issuer`: where people log in; None: by links only.
    """

    settings: ServiceSettings
    engine: Engine
    runs: Mapping[str, RunIndex]
    samples: SampleBuilds
    issuer: Issuer | None = None
    stopping: asyncio.Event = field(default_factory=asyncio.Event)


def build_service(settings: ServiceSettings, engine: Engine) -> Service:
    """Return what the requests of one server share."""
    samples = SampleBuilds()
    runs = {name: RunIndex(engine, project, samples) for name, project in settings.projects.items()}
    return Service(settings, engine, runs, samples, None if settings.oidc is None else Issuer(settings.oidc))


class Access(Struct, frozen=True):
    """A permitted request: who sends it, and the project of its namespace."""

    service: Service
    caller: Caller
    project: Project

    @property
    def engine(self) -> Engine:
        """The database."""
        return self.service.engine

    @property
    def namespace(self) -> str:
        """The namespace of the request."""
        return self.project.namespace

    @property
    def runs(self) -> RunIndex:
        """The index of the runs of the namespace."""
        return self.service.runs[self.namespace]

    def find_indexed(self, run_id: str) -> Path:
        """Return the folder of a run whose index of samples is current.

        Raises:
            ApiProblem: 404: There is no such run. 409: It is in progress or damaged. 503: Its index is being written.
            StoreError: The run cannot be read, or there is no space for its index.
        """
        entry, folder = self.runs.find(run_id), self.runs.find_folder(run_id)
        self.service.samples.require(folder, entry.samples)
        return folder

    def record(self, action: str, target: str) -> None:
        """Add an entry to the audit log of the namespace, about what the caller did."""
        who = {"user": self.caller.user, "token_id": self.caller.token_id}
        record(self.engine, action, **who, namespace=self.namespace, target=target)


def service_of(request: Request) -> Service:
    """Return what the requests of this server share."""
    found: Service = request.app.state.service
    return found


def identify(request: Request) -> Caller:
    """Return who sends a request.

    Raises:
        ApiProblem: 401: there is no valid token.
    """
    caller = _find_caller(request)
    if caller is None:
        detail = "send a valid token: `Authorization: Bearer TOKEN` (evalspec token create makes one)"
        raise ApiProblem(HTTPStatus.UNAUTHORIZED, detail, headers={"WWW-Authenticate": "Bearer"})
    request.state.caller = caller
    return caller


def _find_caller(request: Request) -> Caller | None:
    """Return whose token or session the request has. A token takes precedence."""
    engine, given = service_of(request).engine, request.headers.get("Authorization")
    if given is None:
        session = request.cookies.get(SESSION_COOKIE)
        return None if session is None else find_caller(engine, session, SESSION)
    scheme, _, token = given.partition(" ")
    return find_caller(engine, token.strip()) if scheme.casefold() == "bearer" else None


_Namespace = Annotated[
    str | None,
    Header(description="Namespace of the project; required if the token is valid for several."),
]


def permits(*scopes: Scope) -> Callable[..., Access]:
    """Return the dependency of a route that needs one of the scopes in the namespace of the request."""

    def permit(request: Request, x_namespace: _Namespace = None) -> Access:
        caller = identify(request)
        project = _choose_project(request, caller, x_namespace)
        caller = caller.within(project.namespace)
        if not any(map(caller.may, scopes)):
            granted, needed = ", ".join(sorted(caller.scopes)), " or ".join(scopes)
            raise ApiProblem(HTTPStatus.FORBIDDEN, f"this needs the scope {needed}; the token has {granted}")
        refuse_unknown_parameters(request)
        return Access(service_of(request), caller, project)

    return permit


def _choose_project(request: Request, caller: Caller, namespace: str | None) -> Project:
    """Return the project of the namespace in the header, or the only one that the token is valid for."""
    projects = service_of(request).settings.projects
    own = [name for name in projects if caller.reaches(name)]
    if namespace is None and len(own) == 1:
        namespace = own[0]
    if namespace is None:
        raise ApiProblem(HTTPStatus.BAD_REQUEST, f"name the namespace in the header {NAMESPACE_HEADER}")
    if namespace not in own:
        detail = "the token is not valid for this namespace, or there is none with this name"
        raise ApiProblem(HTTPStatus.FORBIDDEN, detail)
    request.state.namespace = namespace
    return projects[namespace]


Reading = Annotated[Access, Depends(permits(Scope.READ))]
Running = Annotated[Access, Depends(permits(Scope.RUN))]
Reviewing = Annotated[Access, Depends(permits(Scope.REVIEW))]
Pushing = Annotated[Access, Depends(permits(Scope.PUSH, Scope.RUN))]
Administering = Annotated[Access, Depends(permits(Scope.ADMIN))]
