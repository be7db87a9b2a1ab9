"""A Chroma collection. Each passage has its scope in the metadata, so that a delete cannot reach another scope."""

import chromadb
import handbook


class Collection:
    def __init__(self):
        client = chromadb.EphemeralClient(chromadb.Settings(anonymized_telemetry=False))  # or chromadb.HttpClient(…)
        self.passages = client.get_or_create_collection("passages", embedding_function=None)

    def ingest(self, documents, scope_prefix):
        self.passages.upsert(
            ids=[scope_prefix + one.id for one in documents],
            documents=[one.text for one in documents],
            embeddings=[handbook.embed(one.text) for one in documents],
            metadatas=[{"scope": scope_prefix, "id": one.id} for one in documents],
        )

    def delete(self, scope_prefix):
        self.passages.delete(where={"scope": scope_prefix})

    def search(self, request):
        found = self.passages.query(
            query_embeddings=[handbook.embed(request.query)],
            n_results=request.top_k,
            where={"scope": request.scope_prefix},
        )
        columns = (found["metadatas"][0], found["distances"][0], found["documents"][0])
        return [
            {"id": known["id"], "score": -distance, "text": text}
            for known, distance, text in zip(*columns, strict=True)
        ]
