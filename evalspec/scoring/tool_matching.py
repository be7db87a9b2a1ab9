"""Pair the calls that an agent made with the expected ones.

Expected calls follow each other. Made calls of one step have no order among themselves, and steps follow each other.
"""

from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from itertools import groupby
from typing import TYPE_CHECKING, Any

from msgspec import UNSET, Struct

from evalspec.base.assignment import assign, pair_up
from evalspec.base.json_matching import compute_value_digest, find_matcher, has_matchers, matches
from evalspec.base.patterns import sharing_limit
from evalspec.model import ExpectedCall, ToolCall

if TYPE_CHECKING:
    import numpy
    from numpy.typing import NDArray

_PARTIAL = "includes"
_TIE = 1e-7
"""What the distances of all pairs weigh together: less than any difference of shares with up to 3,000 arguments."""


class CallPair(Struct, frozen=True):
    """An expected call with the made call that is nearest to it. `made`: its place; None: there is none of that name.

    `share`: how much of the arguments is right, 1 if the call is the expected one.
    """

    made: int | None
    share: float


class CallComparison:
    """Expected and made calls, each compared with each.

    `fits[i, j]`: whether made call j is expected call i. `shares[i, j]`: how much of its arguments is right: right ones
    / all that either call has. With the matcher `includes`, others that the made call has do not count. Calls of
    different names, and calls whose arguments cannot be read, have nothing in common.
    """

    def __init__(self, expected: Sequence[ExpectedCall], made: Sequence[ToolCall]) -> None:
        import numpy as np

        self.expected, self.made = expected, made
        readable = np.array([call.problem is None for call in made], dtype=bool)
        wanted, named = (np.array([call.name for call in calls], dtype=object) for calls in (expected, made))
        comparable = (wanted[:, None] == named[None, :]).astype(bool) & readable
        with sharing_limit():
            right, every = _count_arguments(expected, made)
            full = right == every
            for row, call in enumerate(expected):
                if call.arguments is UNSET:
                    full[row] = True
                elif find_matcher(call.arguments) not in (None, _PARTIAL):
                    full[row] = [matches(call.arguments, other.arguments) for other in made]
        self.fits: NDArray[np.bool_] = full & comparable
        self.shares: NDArray[np.float64] = np.where(self.fits, 1.0, right / np.maximum(every, 1)) * comparable

    @cached_property
    def right(self) -> int:
        """How many expected calls can each have a made call of their own."""
        return sum(column >= 0 for column in pair_up(self.fits))

    @cached_property
    def pairs(self) -> list[CallPair]:
        """The nearest made call of each expected one.

        As many as possible are equal, then as many as possible have the same name, then the sum of the shares of right
        arguments is largest. Among equal choices, places are near each other. Since calls of other names share nothing,
        each name is a problem of its own, in which as many calls as possible are paired.
        """
        pairs = [CallPair(None, 0.0)] * len(self.expected)
        for name in dict.fromkeys(call.name for call in self.expected):
            rows = [place for place, call in enumerate(self.expected) if call.name == name]
            columns = [place for place, call in enumerate(self.made) if call.name == name]
            shares = self.shares[rows][:, columns]
            for row, column in _assign(shares) if columns else ():
                pairs[rows[row]] = CallPair(columns[column], float(shares[row, column]))
        return pairs

    def list_extra(self) -> list[int]:
        """Return the places of made calls that are nobody's nearest."""
        taken = {pair.made for pair in self.pairs}
        return [place for place in range(len(self.made)) if place not in taken]


def _count_arguments(
    expected: Sequence[ExpectedCall], made: Sequence[ToolCall]
) -> "tuple[NDArray[numpy.int_], NDArray[numpy.int_]]":
    """Return for each pair of calls, how many arguments are right, and how many there are."""
    import numpy as np

    wanted = [_list_wanted(call.arguments) for call in expected]
    found = [call.arguments if isinstance(call.arguments, dict) else {} for call in made]
    is_partial = np.array([find_matcher(call.arguments) == _PARTIAL for call in expected], dtype=bool)
    right = np.zeros((len(expected), len(made)), dtype=int)
    common = np.zeros_like(right)
    for key in dict.fromkeys(key for arguments in wanted for key in arguments):
        values = [arguments.get(key, UNSET) for arguments in found]
        has_value = np.array([value is not UNSET for value in values], dtype=bool)
        numbers: dict[str, int] = {}
        ids = np.array([_number(value, numbers) for value in values], dtype=int)
        _, firsts, places = np.unique(ids, return_index=True, return_inverse=True)
        for row, arguments in enumerate(wanted):
            if key not in arguments:
                continue
            common[row] += has_value
            if has_matchers(arguments[key]):
                right[row] += np.array([matches(arguments[key], values[first]) for first in firsts], dtype=int)[places]
            else:
                right[row] += ids == _number(arguments[key], numbers)
    extra = np.array(list(map(len, found)), dtype=int) - common
    return right, np.array(list(map(len, wanted)), dtype=int)[:, None] + np.where(is_partial[:, None], 0, extra)


def _list_wanted(arguments: Any) -> Mapping[str, Any]:
    """Return the expected arguments by name."""
    if not isinstance(arguments, dict):
        return {}
    wanted: Mapping[str, Any] = arguments[_PARTIAL] if find_matcher(arguments) == _PARTIAL else arguments
    return wanted


def _number(value: Any, numbers: dict[str, int]) -> int:
    """Return a number that equal JSON values share."""
    return numbers.setdefault("" if value is UNSET else compute_value_digest(value), len(numbers))


_RECENT: deque[CallComparison] = deque(maxlen=8)
"""The last comparisons, because several metrics read each of them."""


def compare_calls(expected: Sequence[ExpectedCall], made: Sequence[ToolCall]) -> CallComparison:
    """Return the comparison of two lists of calls, which is made once for all metrics."""
    known = next((one for one in tuple(_RECENT) if one.expected is expected and one.made is made), None)
    if known is None:
        known = CallComparison(expected, made)
        _RECENT.append(known)
    return known


def are_exact(compared: CallComparison) -> bool:
    """Return whether the made calls are the expected ones and no others, in an order that the steps allow."""
    return len(compared.expected) == len(compared.made) and are_in_order(compared)


def are_in_order(compared: CallComparison) -> bool:
    """Return whether the made calls have the expected ones among them, in an order that the steps allow.

    Each step takes as many of the next expected calls as it can. To leave some of them to later steps is never better.
    """
    done = start = 0
    for _, calls in groupby(compared.made, key=lambda call: call.step):
        end = start + len(list(calls))
        done += _take_most(compared.fits[done:, start:end])
        start = end
    return done == len(compared.expected)


def _take_most(fits: "NDArray[numpy.bool_]") -> int:
    """Return how many of the first expected calls the calls of one step can be. If n can be, fewer can be too."""
    low, high = 0, min(fits.shape)
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if -1 not in pair_up(fits[:middle]) else (low, middle - 1)
    return low


def _assign(shares: "NDArray[numpy.float64]") -> Iterator[tuple[int, int]]:
    """Yield pairs of row and column: the most full shares first, then the largest sum, then the nearest places."""
    import numpy as np

    size = max(shares.shape)
    distance = np.abs(np.subtract.outer(np.arange(shares.shape[0]), np.arange(shares.shape[1])))
    worth = np.where(shares == 1, size + 1, shares) - distance * (_TIE / size**2)
    yield from assign(worth)
