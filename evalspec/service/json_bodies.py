"""Bodies are JSON whatever their Content-Type: curl without a header sends the type of a form.

That is safe because the guard checks the origin of each request that changes something.
"""

import json
from collections.abc import Callable, Coroutine
from http import HTTPStatus
from typing import Any

from fastapi import HTTPException, Request, Response
from fastapi.routing import APIRoute
from starlette.datastructures import Headers

from evalspec.base.jsonl import parse_shallow_json

_CONTENT_TYPE = b"content-type"


class _JsonRequest(Request):
    """A request whose body is JSON."""

    @property
    def headers(self) -> Headers:
        """The headers, with the type of JSON."""
        others = [(name, value) for name, value in self.scope["headers"] if name != _CONTENT_TYPE]
        return Headers(raw=[*others, (_CONTENT_TYPE, b"application/json")])

    async def json(self) -> Any:
        """Return the body. NaN and duplicate keys are errors: a parser would keep only the last of them."""
        body = await self.body()
        try:
            text = body.decode()
            value = parse_shallow_json(text)
            if "\\u" in text:
                json.dumps(value, ensure_ascii=False).encode()  # half of a surrogate pair could not be answered
        except (ValueError, RecursionError) as error:
            reason = str(error).encode(errors="backslashreplace").decode()
            raise HTTPException(HTTPStatus.BAD_REQUEST, f"the body is not valid JSON: {reason}") from error
        return value


class JsonRoute(APIRoute):
    """A route whose body is JSON whatever its Content-Type."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """Return the handler."""
        handle = super().get_route_handler()

        async def handle_json(request: Request) -> Response:
            return await handle(_JsonRequest(request.scope, request.receive))

        return handle_json
