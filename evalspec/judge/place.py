"""Where a service is, and where in the manifest that is said."""

from dataclasses import dataclass
from urllib.parse import urlsplit, urlunsplit

from evalspec.errors import JudgeError


@dataclass(frozen=True, slots=True)
class ServicePlace:
    """`name`: what messages call it; `setting`: its section of the manifest; `url`: what requests go to."""

    name: str
    setting: str
    url: str

    def __str__(self) -> str:
        """`the judge at https://host/path`, without user, password and query, which may hold secrets."""
        return f"{self.name} at {_shown(self.url)}"


def find_place(name: str, setting: str, base_url: str, path: str) -> ServicePlace:
    """The base url with a path after its own; a query (`?api-version=…`) stays where it belongs.

    Raises:
        JudgeError: not a url to which http requests can be sent.
    """
    try:
        parts = urlsplit(base_url.strip())
        usable = parts.scheme in ("http", "https") and bool(parts.hostname)
    except ValueError:
        usable = False
    if not usable:
        raise JudgeError(f"{setting}.baseUrl is not a url like https://host/v1", fatal=True)
    url = urlunsplit(parts._replace(path=f"{parts.path.rstrip('/')}/{path}"))
    return ServicePlace(name, setting, url)


def _shown(url: str) -> str:
    parts = urlsplit(url)
    return urlunsplit((parts.scheme, parts.netloc.rpartition("@")[2], parts.path, "", ""))
