"""Texts of others as they may be quoted in a message: short, on one line, without the key."""

_LONGEST = 160
_SHORTEST_KEY = 4


class Redactor:
    """Takes one service's key out of texts: services quote it when they refuse it."""

    def __init__(self, api_key: str | None) -> None:
        key = (api_key or "").strip()
        self._key = key if len(key) >= _SHORTEST_KEY else None

    def __call__(self, text: str) -> str:
        """The text without the key."""
        return text.replace(self._key, "[redacted]") if self._key else text

    def excerpt(self, text: str) -> str:
        """The text without the key, shortened and in quotes; `nothing` where it is blank."""
        return quote(self(text))


def quote(text: str, longest: int = _LONGEST) -> str:
    """The beginning of a text on one line, in quotes; `nothing` where it is blank."""
    line = " ".join(text.split())
    if not line:
        return "nothing"
    return f"'{line if len(line) <= longest else line[: longest - 1] + '…'}'"
