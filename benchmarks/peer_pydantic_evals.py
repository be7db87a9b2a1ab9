"""The same task written with pydantic-evals in the usual way: one shared httpx client, and a check of the answer.

.peers/bin/python peer_pydantic_evals.py URL SAMPLES CONCURRENCY
"""

import asyncio
import sys
from dataclasses import dataclass

import httpx
from pydantic_evals import Case, Dataset
from pydantic_evals.evaluators import Evaluator, EvaluatorContext


@dataclass
class HoldsExpected(Evaluator[str, str]):
    """An evaluator that checks whether the answer contains the expected text."""

    def evaluate(self, ctx: EvaluatorContext[str, str]) -> bool:
        return (ctx.expected_output or "") in ctx.output


async def main(url: str, samples: int, concurrency: int) -> None:
    cases = [
        Case(
            name=str(number),
            inputs=f"How many working days does parcel {number} take?",
            expected_output="two working days",
        )
        for number in range(samples)
    ]
    dataset = Dataset(name="parcels", cases=cases, evaluators=[HoldsExpected()])
    limits = httpx.Limits(max_connections=concurrency)
    async with httpx.AsyncClient(limits=limits, timeout=30) as client:

        async def ask(question: str) -> str:
            reply = await client.post(url, json={"message": question})
            return str(reply.json()["response"])

        report = await dataset.evaluate(ask, max_concurrency=concurrency, progress=False)
    averages = report.averages()
    if averages is None or averages.assertions != 1.0:
        sys.exit("an answer is wrong")


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3])))
