"""Parameters of several routes, and the refusal of those that a route does not have.

An answer that ignores a misspelt filter looks like a filtered one.
"""

from collections.abc import Collection, Mapping
from http import HTTPStatus
from typing import Annotated
from urllib.parse import parse_qsl

from fastapi import Query, Request
from fastapi.dependencies.models import Dependant
from fastapi.routing import APIRoute

from evalspec.base.foreign_text import inert
from evalspec.base.registry import near_miss
from evalspec.service.problems import ApiProblem
from evalspec.service.timestamps import Moment

Since = Annotated[Moment | None, Query(alias="from", description="Started then or later.")]
Until = Annotated[Moment | None, Query(alias="to", description="Started before.")]


class AddressQuery:
    """A dependency: the query of an address, as text by name. Values may have lone surrogates, as ids of samples may.

    `names`: of the parameters. `choices`: the values of filters. An empty one is no filter.
    """

    def __init__(self, *names: str, **choices: Collection[str]) -> None:
        self.names = {*names, *choices}
        self._choices = choices

    def __call__(self, request: Request) -> dict[str, str]:
        """Return the query.

        Raises:
            ApiProblem: 400: The query is not UTF-8. 422: A filter has no such value.
        """
        try:
            given = dict(parse_qsl(request.url.query, keep_blank_values=True, errors="surrogatepass"))
        except ValueError:
            raise ApiProblem(HTTPStatus.BAD_REQUEST, "the address is not valid UTF-8") from None
        wrong = [name for name, known in self._choices.items() if given.get(name) and given[name] not in known]
        _refuse({name: near_miss(given[name], self._choices[name]) for name in wrong}, "unknown value")
        return given


def refuse_unknown_parameters(request: Request) -> None:
    """Check the parameters in the address of a request.

    Raises:
        ApiProblem: 422: The route has no parameter of this name.
    """
    route = request.scope.get("route")
    if not request.query_params or not isinstance(route, APIRoute):
        return
    known = _list_parameters(route.dependant)
    unknown = sorted(set(request.query_params) - known)
    fixes = {name: near_miss(name, known) if known else "this route has no parameters" for name in unknown}
    _refuse(fixes, "unknown parameter")


def _refuse(fixes: Mapping[str, str], message: str) -> None:
    """Raise a problem with a fault for each parameter, if there is any. `fixes`: by the name of the parameter."""
    errors = [{"field": f"query.{inert(name)}", "message": message, "fix": fix} for name, fix in fixes.items()]
    if errors:
        detail = "; ".join(f"{error['field']}: {error['message']}. {error['fix']}" for error in errors)
        raise ApiProblem(HTTPStatus.UNPROCESSABLE_ENTITY, detail, errors=errors)


def _list_parameters(dependant: Dependant) -> set[str]:
    """Return the names of the parameters of a function and of those that it depends on."""
    own = {field.alias for field in dependant.query_params} | getattr(dependant.call, "names", set())
    return own.union(*map(_list_parameters, dependant.dependencies))
