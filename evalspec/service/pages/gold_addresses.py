"""The addresses of the pages of one gold set."""

from urllib.parse import quote

from msgspec import Struct

from evalspec.service.pages.visits import Visit


class SetLinks(Struct, frozen=True):
    """Addresses of a set. `name`: of its folder."""

    visit: Visit
    name: str

    def part(self, path: str = "", **query: str | int | None) -> str:
        """Return the address of a page of the set: `""`, `/review`, `/triple`, `/stats`."""
        return self.visit.link(f"/gold/{quote(self.name, safe='', errors='surrogateescape')}{path}", **query)

    def triple(self, id: str) -> str:
        """Return the address of a triple."""
        return self.part("/triple", id=id)

    def sample(self, _dataset: str, id: str) -> str:
        """Return the address of a triple that the set's statistics name."""
        return self.triple(id)
