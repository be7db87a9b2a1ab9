"""Style, scripts and icon of the pages, under names with a digest, so that browsers keep them."""

from collections.abc import Mapping
from functools import cache
from hashlib import sha256
from importlib.resources import files

from fastapi import APIRouter, Response
from msgspec import Struct

from evalspec.service.problems import not_found

ROUTER = APIRouter(include_in_schema=False)
PREFIX = "/assets"

_REPORT_STYLES = ("tokens.css", "layout.css", "tables.css", "charts.css", "sample.css")
"""Styles of the HTML report, so that pages look like it."""
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
    report = files("evalspec.reports.html_report").joinpath("assets")
    own = files("evalspec.service.pages").joinpath("assets")
    styles = [report.joinpath(name) for name in _REPORT_STYLES] + [own.joinpath("pages.css")]
    found = (
        _name("pages.css", "text/css", b"".join(style.read_bytes() for style in styles)),
        _name("pages.js", "text/javascript", own.joinpath("pages.js").read_bytes()),
        _name("htmx.js", "text/javascript", own.joinpath("htmx.js").read_bytes()),
        _name("icon.svg", "image/svg+xml", own.joinpath("icon.svg").read_bytes()),
    )
    return dict(found)


def _name(name: str, media_type: str, content: bytes) -> tuple[str, Asset]:
    stem, _, suffix = name.rpartition(".")
    digest = sha256(content).hexdigest()[:_DIGEST_LENGTH]
    return name, Asset(f"{stem}.{digest}.{suffix}", media_type, content)
