"""PostgreSQL: full text search, and the same table with pgvector. The scope is a column of its own."""

import os

import handbook
import psycopg

DATABASE = os.environ.get("POSTGRES_URL", "")  # empty: what PGHOST and the like name


class FullText:
    table = "passages"
    columns = "scope text, id text, body text, PRIMARY KEY (scope, id)"
    insert = "INSERT INTO passages (scope, id, body) VALUES (%(scope)s, %(id)s, %(body)s)"
    select = """
        SELECT id, ts_rank_cd(to_tsvector('english', body), asked.words) AS score, body
        FROM passages, (SELECT replace(plainto_tsquery('english', %(text)s)::text, '&', '|')::tsquery AS words) AS asked
        WHERE scope = %(scope)s AND to_tsvector('english', body) @@ asked.words
        ORDER BY score DESC, id LIMIT %(limit)s
    """

    def __init__(self):
        self.db = psycopg.connect(DATABASE, autocommit=True)
        self.db.execute(f"CREATE TABLE IF NOT EXISTS {self.table} ({self.columns})")

    def describe(self, text):
        return {}

    def ingest(self, documents, scope_prefix):
        rows = [{"scope": scope_prefix, "id": one.id, "body": one.text, **self.describe(one.text)} for one in documents]
        with self.db.cursor() as cursor:
            cursor.executemany(self.insert, rows)

    def delete(self, scope_prefix):
        self.db.execute(f"DELETE FROM {self.table} WHERE scope = %s", (scope_prefix,))  # never LIKE

    def search(self, request):
        asked = {"text": request.query, "scope": request.scope_prefix, "limit": request.top_k}
        rows = self.db.execute(self.select, asked | self.describe(request.query)).fetchall()
        return [{"id": name, "score": float(score), "text": body} for name, score, body in rows]

    def close(self):
        self.db.close()


class Vectors(FullText):
    table = "embedded_passages"
    columns = f"scope text, id text, body text, embedding vector({handbook.DIMENSIONS}), PRIMARY KEY (scope, id)"
    insert = "INSERT INTO embedded_passages VALUES (%(scope)s, %(id)s, %(body)s, %(vector)s::vector)"
    select = """
        SELECT id, 1 - (embedding <=> %(vector)s::vector) AS score, body FROM embedded_passages
        WHERE scope = %(scope)s ORDER BY embedding <=> %(vector)s::vector, id LIMIT %(limit)s
    """

    def __init__(self):
        with psycopg.connect(DATABASE, autocommit=True) as db:
            db.execute("CREATE EXTENSION IF NOT EXISTS vector")
        super().__init__()

    def describe(self, text):
        return {"vector": str(handbook.embed(text))}
