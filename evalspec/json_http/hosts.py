"""The door of every connection: which hosts requests may go to."""

from typing import TYPE_CHECKING, Any

from evalspec.trust import Act, require

if TYPE_CHECKING:
    import httpx


async def refuse_other_hosts(request: "httpx.Request") -> None:
    """See that a request may be sent. It is given the url as the client itself reads it.

    Raises:
        Refused: its host is not one that may be connected to.
    """
    require(Act.CONNECT, f"{request.url.scheme}://{request.url.netloc.decode()}")


HOOKS: dict[str, list[Any]] = {"request": [refuse_other_hosts]}
"""`event_hooks` of every httpx client."""
