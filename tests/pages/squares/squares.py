"""An agent that squares numbers, and errs: every second time with some, always with others."""

import asyncio
import os
import signal
from collections import Counter

WRONG = [int(number) for number in os.environ.get("WRONG", "7").split()]
LUCKY = [int(number) for number in os.environ.get("LUCKY", "5 10 15 20").split()]
ASKED = Counter()


async def square(question):
    number = int(question.split()[0])
    ASKED[number] += 1
    if str(ASKED.total()) == os.environ.get("INTERRUPT_AT"):
        os.kill(os.getpid(), signal.SIGINT)
        await asyncio.sleep(60)
    errs = number in WRONG or (number in LUCKY and ASKED[number] % 2 == 0)
    return f"It is {-1 if errs else number**2}."
