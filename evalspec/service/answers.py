"""Responses: JSON without the checks of a pydantic model, and files to download."""

import json
from collections.abc import Mapping
from typing import Any

from fastapi import Response

JSON_TYPE = "application/json"


def render_answer(
    document: Any, status: int = 200, headers: Mapping[str, str] | None = None, media_type: str = JSON_TYPE
) -> Response:
    """Return a JSON-serializable value as a response, without the checks of a pydantic model.

    It is ASCII, because texts of runs and requests may have lone surrogates, which UTF-8 cannot represent.
    """
    content = json.dumps(document, allow_nan=False, separators=(",", ":"))
    return Response(content, status, headers, media_type)


def file_headers(name: str) -> dict[str, str]:
    """Return the headers of a file to download. A browser that shows it nevertheless runs no script of it."""
    own = {"X-Content-Type-Options": "nosniff", "Content-Security-Policy": "sandbox", "Cache-Control": "no-store"}
    return {**own, "Content-Disposition": f'attachment; filename="{name}"'}
