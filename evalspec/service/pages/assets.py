"""Style, scripts and icon of the pages, under names with a digest, so that browsers keep them."""

from collections.abc import Mapping
from functools import cache
from hashlib import sha256
from importlib.resources import files

from fastapi import APIRouter, Response
from msgspec import Struct

from evalspec.reports.markup.assets import read_script, read_style
from evalspec.service.problems import not_found

ROUTER = APIRouter(include_in_schema=False)
PREFIX = "/assets"

_DIGEST_LENGTH = 16
_HEADERS = {"Cache-Control": "public, max-age=31536000, immutable", "X-Content-Type-Options": "nosniff"}


class Asset(Struct, frozen=True):
    """One file. `name`: with the digest of its content."""

    name: str
    media_type: str
    content: bytes


@ROUTER.get(PREFIX + "/{name}")
def get_asset(name: str) -> Response:
    """Return a file. These files are in the package that everybody can install, so they need no session."""
    for asset in load_assets().values():
        if asset.name == name:
            return Response(asset.content, media_type=asset.media_type, headers=_HEADERS)
    raise not_found("there is no such file")


def link_asset(name: str) -> str:
    """Return the path of a file, by its name without digest."""
    return f"{PREFIX}/{load_assets()[name].name}"


@cache
def load_assets() -> Mapping[str, Asset]:
    """Return all files by their names without digest."""
    own = files(__package__).joinpath("assets")
    style, script = read_style(__package__, "pages"), read_script(__package__, ("pages",))
    found = (
        _name("pages.css", "text/css", style.encode()),
        _name("pages.js", "text/javascript", script.encode()),
        _name("htmx.js", "text/javascript", own.joinpath("htmx.js").read_bytes()),
        _name("icon.svg", "image/svg+xml", own.joinpath("icon.svg").read_bytes()),
    )
    return dict(found)


def _name(name: str, media_type: str, content: bytes) -> tuple[str, Asset]:
    stem, _, suffix = name.rpartition(".")
    digest = sha256(content).hexdigest()[:_DIGEST_LENGTH]
    return name, Asset(f"{stem}.{digest}.{suffix}", media_type, content)
