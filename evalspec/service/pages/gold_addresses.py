"""The addresses of the pages of one gold set."""

from collections.abc import Mapping
from urllib.parse import quote

from msgspec import Struct, field

from evalspec.reports.markup.views import LONGEST
from evalspec.reports.view.parts import Role
from evalspec.service.pages.visits import Visit


class SetLinks(Struct, frozen=True):
    """Addresses of a set. `name`: of its folder."""

    visit: Visit
    name: str
    longest: Mapping[Role, int] = field(default_factory=lambda: LONGEST)

    def part(self, path: str = "", **query: str | int | None) -> str:
        """Return the address of a page of the set: `""`, `/review`, `/triple`, `/stats`."""
        return self.visit.link(f"/gold/{quote(self.name, safe='', errors='surrogateescape')}{path}", **query)

    def triple(self, id: str) -> str:
        """Return the address of a triple."""
        return self.part("/triple", id=id)

    def sample(self, _dataset: str, id: str) -> str:
        """Return the address of a triple that the set's statistics name."""
        return self.triple(id)

    def section(self, at: str, page: int | None = None) -> str:
        """Return the address of a section of the set's statistics."""
        return self.part("/stats", at=at, page=page)
