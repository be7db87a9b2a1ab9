"""The tables of the database. Times are seconds since 1970 (UTC).

`runs` and `run_datasets` are an index over files, which `evalspec serve --reindex` rebuilds. The other tables exist
only here, so back them up.
"""

from sqlalchemy import JSON, Boolean, Column, Float, Index, Integer, MetaData, String, Table, Text

METADATA = MetaData()

PROJECTS = Table(
    "projects",
    METADATA,
    Column("namespace", String(64), primary_key=True),
    Column("store_id", String(32), nullable=False),
    Column("alerts", JSON),
)
"""The store of each namespace, so that a worker with another folder is recognized.

`alerts`: since when there are any, and the last state of each branch."""

TOKENS = Table(
    "tokens",
    METADATA,
    Column("id", String(32), primary_key=True),
    Column("hash", String(64), nullable=False, unique=True),
    Column("kind", String(16), nullable=False),
    Column("user", Text, nullable=False),
    Column("scopes", JSON, nullable=False),
    Column("namespaces", JSON, nullable=False),
    Column("created_at", Float, nullable=False),
    Column("expires_at", Float, nullable=False),
    Column("revoked_at", Float),
    Column("granted_by", Text),
)
"""Tokens, sessions and login links (`kind`). Only their SHA-256 is stored. `namespaces` null: all. `granted_by`: the
person whose roles limit what is permitted; null: the operator created it."""

PEOPLE = Table(
    "people",
    METADATA,
    Column("user", String(300), primary_key=True),
    Column("first_seen", Float),
    Column("last_seen", Float),
    Column("disabled_at", Float),
)
"""Who has logged in, or was given a role before."""

ROLES = Table(
    "roles",
    METADATA,
    Column("user", String(300), primary_key=True),
    Column("namespace", String(64), primary_key=True),
    Column("role", String(16), nullable=False),
)
"""The roles of people. `namespace` `*`: every one."""

JOBS = Table(
    "jobs",
    METADATA,
    Column("id", String(48), primary_key=True),
    Column("namespace", String(64), nullable=False),
    Column("kind", String(32), nullable=False),
    Column("request", JSON, nullable=False),
    Column("user", Text, nullable=False),
    Column("status", String(16), nullable=False),
    Column("created_at", Float, nullable=False),
    Column("started_at", Float),
    Column("finished_at", Float),
    Column("worker", Text),
    Column("lease_until", Float),
    Column("fence", Integer, nullable=False, default=0),
    Column("stalls", Integer, nullable=False, default=0),
    Column("is_cancelled", Boolean, nullable=False, default=False),
    Column("calls", Integer, nullable=False, default=0),
    Column("progress", JSON),
    Column("run_id", Text),
    Column("result", JSON),
    Column("error", Text),
    Index("jobs_by_namespace", "namespace", "kind", "created_at"),
    Index("jobs_by_status", "status", "lease_until"),
    Index("jobs_by_run", "namespace", "run_id"),
)
"""Work for the workers. `calls`: how many calls of the target the job plans, for the limit per day."""

RUNS = Table(
    "runs",
    METADATA,
    Column("namespace", String(64), primary_key=True),
    Column("id", Text, primary_key=True),
    Column("signature", Text, nullable=False),
    Column("started_at", Float, nullable=False),
    Column("status", String(16), nullable=False),
    Column("verdict", String(16)),
    Column("partial", Boolean),
    Column("manifest", Text),
    Column("kind", String(16)),
    Column("samples", Integer, nullable=False, default=0),
    Column("error", Text),
    Column("branch", Text),
    Column("origin", JSON),
    Column("details", Text),
    Index("runs_by_time", "namespace", "started_at", "id"),
)
"""The index of runs. `signature`: sizes and times of the files it was read from. `kind`: what was evaluated, `agent` or
`retriever`. `origin`: the CI build, and who pushed the run. `details`: the run as JSON, without its samples."""

RUN_DATASETS = Table(
    "run_datasets",
    METADATA,
    Column("namespace", String(64), primary_key=True),
    Column("run_id", Text, primary_key=True),
    Column("place", Integer, primary_key=True),
    Column("name", Text, nullable=False),
    Column("selected", Integer, nullable=False),
    Column("metrics", JSON, nullable=False),
)
"""The datasets of the runs in the index, with the value of every metric."""

BASELINES = Table(
    "baselines",
    METADATA,
    Column("namespace", String(64), primary_key=True),
    Column("name", String(100), primary_key=True),
    Column("number", Integer, primary_key=True),
    Column("at", Float, nullable=False),
    Column("user", Text, nullable=False),
    Column("run_id", Text, nullable=False),
    Column("file", Text, nullable=False),
    Column("reason", Text),
)
"""Every promotion of a run to a baseline, numbered from 1 for each name: the newest counts, the others are its history.
`file`: the document, in the folder of baselines of the store. `reason`: why its losses were accepted, or null."""

AUDIT = Table(
    "audit",
    METADATA,
    Column("id", String(32), primary_key=True),
    Column("at", Float, nullable=False),
    Column("namespace", String(64)),
    Column("user", Text),
    Column("token_id", String(32)),
    Column("address", Text),
    Column("action", Text, nullable=False),
    Column("target", Text),
    Column("status", Integer),
    Index("audit_by_namespace", "namespace", "at"),
    Index("audit_by_time", "at"),
)
"""Who did what: every request that changes something, and every refusal. Ids are random, so they count nothing.

`target`: ids of what was changed. `namespace` null: it is unknown, or all are concerned."""

ASSIGNMENTS = Table(
    "assignments",
    METADATA,
    Column("id", String(48), primary_key=True),
    Column("namespace", String(64), nullable=False),
    Column("run_id", Text, nullable=False),
    Column("queue", JSON, nullable=False),
    Column("people", JSON, nullable=False),
    Column("each", Integer),
    Column("user", Text, nullable=False),
    Column("created_at", Float, nullable=False),
    Index("assignments_by_namespace", "namespace", "created_at"),
)
"""Who is asked to label which replies of a run. `queue`: the filters of the page, as text. `each`: how many people
label each reply; null: all. `user`: who asked them."""

ALERTS = Table(
    "alerts",
    METADATA,
    Column("id", String(48), primary_key=True),
    Column("namespace", String(64), nullable=False),
    Column("created_at", Float, nullable=False),
    Column("body", Text, nullable=False),
    Column("status", String(16), nullable=False),
    Column("attempts", Integer, nullable=False),
    Column("next_at", Float, nullable=False),
    Column("error", Text),
    Column("branch", String(32)),
    Index("alerts_by_namespace", "namespace", "created_at"),
    Index("alerts_by_branch", "branch", "status"),
)
"""What is sent to webhooks. `created_at`: their order; no two of a namespace are equal. `next_at`: when a pending alert
is due, or one that is being sent if its sender dies. `branch`: the key of its state, null of a test."""
