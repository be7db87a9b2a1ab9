"""Being told to end is like Ctrl-C, so what was begun is undone and what was gathered is kept."""

import signal
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def ended_like_ctrl_c() -> Iterator[None]:
    """Raise KeyboardInterrupt within for SIGTERM and SIGHUP, where the system has them, as for Ctrl-C.

    Ctrl-C is listened to even if a shell started us with it ignored, as with `&` in a script.
    """

    def interrupt(*_: object) -> None:
        signal.raise_signal(signal.SIGINT)

    numbers = [getattr(signal, name) for name in ("SIGTERM", "SIGHUP") if hasattr(signal, name)]
    previous = {number: signal.signal(number, interrupt) for number in numbers}
    previous[signal.SIGINT] = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        yield
    finally:
        for number, handler in previous.items():
            signal.signal(number, handler)
