"""The same four metrics with ragas alone, in the usual way: its own OpenAI client, and a limit on concurrent calls.

python peer_ragas.py SAMPLES URL EMBEDDINGS_URL CONCURRENCY; without samples it only imports.
ragas posts an event about each call, and blocks its event loop meanwhile: minutes in all where its server cannot be
reached. So this is turned off, as evalspec does.
"""

import asyncio
import json
import os
import sys
from pathlib import Path
from typing import Any

os.environ["RAGAS_DO_NOT_TRACK"] = "true"

import httpx
from openai import AsyncOpenAI
from ragas.embeddings import OpenAIEmbeddings
from ragas.llms import llm_factory
from ragas.metrics.collections import AnswerRelevancy, ContextPrecision, ContextRecall, Faithfulness


async def main(samples: Path, url: str, embeddings_url: str, concurrency: int) -> None:
    limits = httpx.Limits(max_connections=concurrency)
    async with httpx.AsyncClient(limits=limits, timeout=60) as connections:
        client = AsyncOpenAI(base_url=url, api_key="none", http_client=connections)
        llm: Any = llm_factory("scripted", client=client)
        embeddings = OpenAIEmbeddings(client=AsyncOpenAI(base_url=embeddings_url, api_key="none"), model="bag")
        faithfulness, relevancy = Faithfulness(llm=llm), AnswerRelevancy(llm=llm, embeddings=embeddings)
        precision, recall = ContextPrecision(llm=llm), ContextRecall(llm=llm)

        async def score(line: str) -> None:
            sample = json.loads(line)
            question, answer, truth = sample["input"], sample["response"], sample["expected"]
            contexts = sample["retrieved_contexts"]
            await asyncio.gather(
                faithfulness.ascore(user_input=question, response=answer, retrieved_contexts=contexts),
                relevancy.ascore(user_input=question, response=answer),
                precision.ascore(user_input=question, reference=truth, retrieved_contexts=contexts),
                recall.ascore(user_input=question, retrieved_contexts=contexts, reference=truth),
            )

        await asyncio.gather(*map(score, samples.read_text(encoding="utf-8").splitlines()))


if __name__ == "__main__" and len(sys.argv) > 1:
    asyncio.run(main(Path(sys.argv[1]), *sys.argv[2:4], int(sys.argv[4])))
