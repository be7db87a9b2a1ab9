"""What went wrong with a request to a Qdrant server, in one line. Imported when something did."""

import json
from importlib import import_module
from urllib.parse import urlsplit

import httpx

from evalspec.errors import EvalspecError, RetrieverError
from evalspec.http.failures import Service, explain_failure, explain_status
from evalspec.trust import Refused

_QDRANT = Service("Qdrant", "qdrant", credentials_key="apiKey", place_key="url")


def explain_error(error: Exception, url: str | None, timeout: float) -> EvalspecError | None:
    """Return an error of qdrant-client as ours; None for another's. `url`: the server's, None for an embedded store."""
    answers = import_module("qdrant_client.http.exceptions")
    refusals = import_module("qdrant_client.common.client_exceptions")
    where = urlsplit(url).netloc.rpartition("@")[2] if url else "the embedded store"
    if isinstance(error, refusals.QdrantException):  # 429, with a Retry-After that may be no number
        wait = getattr(error, "retry_after_s", None)
        return RetrieverError(f"{where} has too much to do", retryable=True, retry_after=wait, throttled=True)
    if isinstance(error, answers.UnexpectedResponse):
        return _explain_status(error.status_code or 0, error.content, url or "")
    if isinstance(error, answers.ResponseHandlingException):
        return _explain_source(error.source, url or "", where, timeout)
    return _not_qdrant(where) if isinstance(error, json.JSONDecodeError) else None


def _explain_status(status: int, content: bytes, url: str) -> RetrieverError:
    response = httpx.Response(status, request=httpx.Request("GET", url))
    return explain_status(response, _find_reason(content), _QDRANT).named(RetrieverError, "qdrant")


def _find_reason(content: bytes) -> str:
    try:
        said = json.loads(content)["status"]["error"]
    except (ValueError, LookupError, TypeError):
        return ""
    return str(said)


def _explain_source(source: Exception, url: str, where: str, timeout: float) -> EvalspecError:
    if isinstance(source, Refused):
        return source
    if isinstance(source, httpx.TransportError):
        return explain_failure(source, url, timeout, _QDRANT).named(RetrieverError, "qdrant")
    return _not_qdrant(where)


def _not_qdrant(where: str) -> RetrieverError:
    return RetrieverError(f"{where} does not answer as Qdrant does; check url")
