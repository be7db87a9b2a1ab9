"""Divide a number of places among strata in proportion to their sizes. All arithmetic is exact."""

from collections.abc import Hashable, Mapping
from heapq import heapify, heappop, heappush
from typing import Any, TypeVar

Stratum = TypeVar("Stratum", bound=Hashable)


def apportion_nested(sizes: Mapping[Stratum, int], places: int) -> dict[Stratum, int]:
    """Return the number of places of each stratum, less than 1 from its quota `places · size / total`.

    With more places, no stratum gets fewer, so samples of different sizes are nested. This is the quota method of
    Balinski and Young (1975): each place goes to the stratum with the most members for a place, among those that stay
    within their quota rounded up. Ties go to the stratum that sorts first. `places` above the total mean the total.

    Raises:
        ValueError: A size or the number of places is negative.
    """
    _refuse_negative(sizes, places)
    total = sum(sizes.values())
    given = dict.fromkeys(sizes, 0)
    waiting: list[tuple[float, Any]] = [(-float(size), stratum) for stratum, size in sizes.items() if size]
    heapify(waiting)
    if len(waiting) == 1:
        return given | {waiting[0][1]: min(places, total)}
    for place in range(1, min(places, total) + 1):
        full = []
        while True:
            entry = heappop(waiting)
            stratum = entry[1]
            if given[stratum] * total < place * sizes[stratum]:
                break
            full.append(entry)
        given[stratum] += 1
        for entry in (*full, (-sizes[stratum] / (given[stratum] + 1), stratum)):
            heappush(waiting, entry)
    return given


def apportion_by_remainder(sizes: Mapping[Stratum, int], places: int) -> dict[Stratum, int]:
    """Return the number of places of each stratum by largest remainder, at least 1 if there are enough places.

    Strata whose quota is below 1 get one place. The others share the rest: each gets its quota rounded down, and the
    places that remain go to the largest fractions. Ties go to the stratum that sorts first. With fewer places than
    strata, the smallest strata get none. `places` above the total mean the total.

    Raises:
        ValueError: A size or the number of places is negative.
    """
    _refuse_negative(sizes, places)
    rest = {stratum: sizes[stratum] for stratum in sorted(sizes) if sizes[stratum]}  # type: ignore[type-var]
    places = min(places, sum(rest.values()))
    given = dict.fromkeys(sizes, 0)
    while places >= len(rest) and (small := [one for one in rest if places * rest[one] < sum(rest.values())]):
        for stratum in small:
            given[stratum] = 1
            del rest[stratum]
        places -= len(small)
    total = sum(rest.values())
    for stratum, size in rest.items():
        given[stratum] = places * size // total
    left = places - sum(given[stratum] for stratum in rest)
    for stratum in sorted(rest, key=lambda one: -(places * rest[one] % total))[:left]:
        given[stratum] += 1
    return given


def _refuse_negative(sizes: Mapping[Stratum, int], places: int) -> None:
    if places < 0 or any(size < 0 for size in sizes.values()):
        raise ValueError("sizes and places cannot be negative")
