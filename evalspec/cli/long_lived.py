"""Keep the garbage collector away from objects that live until the end of a command."""

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def long_lived() -> Iterator[None]:
    """Disable garbage collection in the block, and exempt its objects from later collections.

    Modules, samples and stored scores live until the end of a run. The garbage collector would visit each a dozen times
    while they are loaded, and its pauses during the run would be measured as latency.
    """
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        gc.enable()
