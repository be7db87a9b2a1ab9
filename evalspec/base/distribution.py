"""What the installed distribution of evalspec requires, and where it was installed from.

Imports the standard library only: `evalspec requirements --slim` runs before anything else is installed.
"""

import json
import re
from collections.abc import Iterable
from functools import cache
from importlib import metadata
from itertools import islice
from typing import Any

NAME = "evalspec-runner"
_EXTRA = re.compile(r"""extra\s*==\s*["']([\w-]+)["']""")


@cache
def read_requirements() -> dict[str, list[str]]:
    """Return the requirements for pip by extra. Those of the extra "" are installed by default.

    Empty if evalspec is not installed, but run from a folder.
    """
    found: dict[str, list[str]] = {}
    for line in (line for one in islice(metadata.distributions(name=NAME), 1) for line in one.requires or ()):
        requirement, _, condition = line.partition(";")
        extra = _EXTRA.search(condition)
        found.setdefault(extra[1] if extra else "", []).append(requirement.strip())
    return found


def list_requirements(extras: Iterable[str] = ()) -> list[str]:
    """Return the requirements of a slim installation with some extras.

    A dependency that an extra lists too is needed by some metrics only, so a slim installation lacks it. Empty if
    evalspec is not installed, but run from a folder.
    """
    by_extra = read_requirements()
    for_some = {one for extra, needed in by_extra.items() if extra for one in needed}
    chosen = {one for extra in extras for one in by_extra.get(extra, ())}
    return sorted(chosen.union(by_extra.get("", ())) - (for_some - chosen))


def read_origin() -> dict[str, Any] | None:
    """Return where pip installed evalspec from, as its `direct_url.json` (PEP 610) says.

    `{}`: from an index, by name and version. None: unknown.
    """
    for one in metadata.distributions(name=NAME):
        direct = one.read_text("direct_url.json")
        if direct or one.read_text("INSTALLER"):  # the folder of a checkout has neither: pip did not write it
            return dict(json.loads(direct or "{}"))
    return None
