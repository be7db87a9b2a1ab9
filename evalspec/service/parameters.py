"""Refuse parameters that a route does not have: an answer that ignores a misspelt filter looks like a filtered one."""

from http import HTTPStatus

from fastapi import Request
from fastapi.dependencies.models import Dependant
from fastapi.routing import APIRoute

from evalspec.foreign_text import inert
from evalspec.registry import near_miss
from evalspec.service.problems import ApiProblem


def refuse_unknown_parameters(request: Request) -> None:
    """Check the parameters in the address of a request to the API.

    Raises:
        ApiProblem: 422: The route has no parameter of this name.
    """
    route = request.scope.get("route")
    if not request.query_params or not isinstance(route, APIRoute) or not route.include_in_schema:  # or a page
        return
    known = _list_parameters(route.dependant)
    unknown = sorted(set(request.query_params) - known)
    if not unknown:
        return
    fixes = {name: near_miss(name, known) if known else "this route has no parameters" for name in unknown}
    errors = [{"field": f"query.{inert(name)}", "message": "unknown parameter", "fix": fixes[name]} for name in unknown]
    detail = "; ".join(f"{error['field']}: {error['message']}. {error['fix']}" for error in errors)
    raise ApiProblem(HTTPStatus.UNPROCESSABLE_ENTITY, detail, errors=errors)


def _list_parameters(dependant: Dependant) -> set[str]:
    """Return the names of the parameters of a function and of those that it depends on."""
    own = {field.alias for field in dependant.query_params}
    return own.union(*map(_list_parameters, dependant.dependencies))
