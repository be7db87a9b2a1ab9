"""The functions `match` and `search` of JSONPath with a time limit: people write the patterns, and agents the texts.

A pattern such as `(a|aa)+$` may take years for a line of text. While one is matched, no timeout and no signal is seen.
"""

from contextvars import ContextVar
from time import monotonic
from typing import Any

import regex
from iregexp_check import check
from jsonpath_rfc9535 import JSONPathEnvironment
from jsonpath_rfc9535.function_extensions.match import Match, map_re
from jsonpath_rfc9535.function_extensions.search import Search

ENDS_AT: ContextVar[float] = ContextVar("ends_at")
"""When the patterns of the query that is applied have to end, by `monotonic`."""


def _has(find: Any, text: object, pattern: object) -> bool:
    """Return whether a text has a pattern, as the package has it.

    Raises:
        TimeoutError: It takes too long.
    """
    if not isinstance(text, str) or not isinstance(pattern, str) or not check(pattern):
        return False
    left = max(ENDS_AT.get() - monotonic(), 1e-6)
    try:
        return find(map_re(pattern), text, regex.VERSION1, timeout=left, concurrent=True) is not None
    except regex.error:
        return False


class _Match(Match):  # type: ignore[misc]
    def __call__(self, string: str, pattern: object) -> bool:
        return _has(regex.fullmatch, string, pattern)


class _Search(Search):  # type: ignore[misc]
    def __call__(self, string: str, pattern: object) -> bool:
        return _has(regex.search, string, pattern)


ENVIRONMENT = JSONPathEnvironment()
ENVIRONMENT.function_extensions |= {"match": _Match(), "search": _Search()}
