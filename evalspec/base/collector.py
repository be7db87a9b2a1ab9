"""Keep the cyclic garbage collector away from large data, which it would traverse repeatedly while it is loaded."""

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def growing() -> Iterator[None]:
    """Disable garbage collection in the block, which builds millions of objects and drops none.

    The collector would take up to half of the time.
    """
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()


@contextmanager
def long_lived() -> Iterator[None]:
    """Do as `growing`, and exempt the objects of the block from later collections.

    Modules, samples and stored scores live until the end of a command, and pauses of the collector during a run would
    be measured as latency.
    """
    with growing():
        try:
            yield
        finally:
            gc.freeze()
