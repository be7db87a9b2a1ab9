"""Where a service is, and where in the manifest that is said."""

from dataclasses import dataclass
from urllib.parse import urlsplit, urlunsplit


@dataclass(frozen=True, slots=True)
class ServicePlace:
    """`name`: what messages call it; `setting`: its section of the manifest; `url`: what requests go to."""

    name: str
    setting: str
    url: str

    def __str__(self) -> str:
        """`the judge at https://host/path`, without user, password and query, which may hold secrets."""
        return f"{self.name} at {_shown(self.url)}"


def join_url(base_url: str, path: str) -> str:
    """The base url with a path after its own; a query (`?api-version=…`) stays where it belongs."""
    parts = urlsplit(base_url.strip())
    return urlunsplit(parts._replace(path=f"{parts.path.rstrip('/')}/{path}"))


def _shown(url: str) -> str:
    parts = urlsplit(url)
    return urlunsplit((parts.scheme, parts.netloc.rpartition("@")[2], parts.path, "", ""))
