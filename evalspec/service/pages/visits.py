"""Who visits a page, in which namespace, and the addresses of pages in that namespace.

The namespace is in the address if a visitor has several, so that a link shows everybody the same.
"""

from collections.abc import Callable
from http import HTTPStatus
from typing import Annotated
from urllib.parse import quote, urlencode

from fastapi import Depends, Query, Request
from fastapi.responses import RedirectResponse
from msgspec import Struct

from evalspec.service.access import Access, identify, service_of
from evalspec.service.parameters import refuse_unknown_parameters
from evalspec.service.problems import ApiProblem
from evalspec.service.settings import Project
from evalspec.service.tokens import Scope

UPLOADING = (Scope.PUSH, Scope.RUN)
"""Either scope permits uploads of datasets."""

_LONGEST_ID = 300
"""Longest dataset and id of a sample, in characters, for which the address of the sample has them."""


class Visit(Struct, frozen=True):
    """One permitted request for a page. `namespaces`: all that the visitor may see."""

    access: Access
    namespaces: tuple[str, ...]
    path: str

    @property
    def namespace(self) -> str:
        """The namespace of the page."""
        return self.access.namespace

    @property
    def project(self) -> Project:
        """The project of the namespace."""
        return self.access.project

    def may(self, *scopes: str) -> bool:
        """Return whether the visitor may do what needs one of these scopes."""
        return any(self.access.caller.may(Scope(scope)) for scope in scopes)

    def link(self, path: str, **query: str | int | None) -> str:
        """Return the address of a page in this namespace. Values that are None are left out."""
        return _join(path, query, self.namespace if len(self.namespaces) > 1 else None)

    def link_namespace(self, namespace: str) -> str:
        """Return the address of the runs of another namespace."""
        return _join("/runs", {}, namespace)

    def link_run(self, run_id: str, part: str = "", **query: str | int | None) -> str:
        """Return the address of a run, or of a part of it."""
        return self.link(f"/runs/{quote(run_id, safe='')}{part}", **query)

    def link_sample(
        self, run_id: str, dataset: str, id: str, position: int | None = None, **query: str | int | None
    ) -> str | None:
        """Return the address of a sample: by its id, or if that is very long by its position, if that is known."""
        if len(id) + len(dataset) <= _LONGEST_ID:
            return self.link_run(run_id, "/sample", dataset=dataset, id=id, **query)
        return None if position is None else self.link_run(run_id, "/sample", at=position, **query)


class NamespaceNeeded(Exception):
    """The address of a page names no namespace, and the visitor has several."""

    def __init__(self, location: str) -> None:
        super().__init__(location)
        self.location = location


def visit(request: Request, namespace: Annotated[str | None, Query(max_length=100)] = None) -> Visit:
    """Return who visits a page.

    Raises:
        ApiProblem: 401: there is no session. 403: the visitor may not read in the namespace. 422: the page has no
            parameter of a name in the address.
        NamespaceNeeded: The visitor has several namespaces, and the address names none.
    """
    caller = identify(request)
    projects = service_of(request).settings.projects
    own = tuple(name for name in projects if caller.reaches(name))
    if not own:
        raise ApiProblem(HTTPStatus.FORBIDDEN, "there is no namespace that you may see; ask an admin for a role in one")
    if namespace is None and len(own) > 1:
        given = [(key, value) for key, value in request.query_params.multi_items() if key != "namespace"]
        query = urlencode([*given, ("namespace", own[0])], errors="surrogatepass")
        raise NamespaceNeeded(f"{quote(request.url.path)}?{query}")
    chosen = own[0] if namespace is None else namespace
    if chosen not in own:
        raise ApiProblem(HTTPStatus.FORBIDDEN, "you may not see this namespace, or there is none with this name")
    caller = caller.within(chosen)
    if not caller.may(Scope.READ):
        raise ApiProblem(HTTPStatus.FORBIDDEN, "the pages need the scope read")
    request.state.namespace = chosen
    refuse_unknown_parameters(request)
    return Visit(Access(service_of(request), caller, projects[chosen]), own, request.url.path)


Visitor = Annotated[Visit, Depends(visit)]


def needs(*scopes: Scope) -> Callable[..., Visit]:
    """Return the dependency of a page that needs one of the scopes: it answers 403 to visitors without them."""

    def admit(visit: Visitor) -> Visit:
        if not visit.may(*scopes):
            raise ApiProblem(HTTPStatus.FORBIDDEN, f"this needs the scope {' or '.join(scopes)}")
        return visit

    return admit


Operator = Annotated[Visit, Depends(needs(Scope.RUN))]
Reviewer = Annotated[Visit, Depends(needs(Scope.REVIEW))]
Administrator = Annotated[Visit, Depends(needs(Scope.ADMIN))]
Uploader = Annotated[Visit, Depends(needs(*UPLOADING))]


def see_other(place: str) -> RedirectResponse:
    """Send the browser to another page, as after a form: loading that page again sends nothing twice."""
    return RedirectResponse(place, HTTPStatus.SEE_OTHER)


def redirect_to_namespace(_request: Request, error: Exception) -> RedirectResponse:
    """Send the browser to the same page in the visitor's first namespace."""
    location = error.location if isinstance(error, NamespaceNeeded) else "/runs"
    return see_other(location)


def _join(path: str, query: dict[str, str | int | None], namespace: str | None) -> str:
    given = {key: value for key, value in {**query, "namespace": namespace}.items() if value is not None}
    return f"{path}?{urlencode(given, errors='surrogatepass')}" if given else path
