"""Alerts: their queue, and what they know of each branch."""

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"


def upgrade() -> None:
    """Create the table, and add the column."""
    op.add_column("projects", sa.Column("alerts", sa.JSON(), nullable=True))
    op.create_table(
        "alerts",
        sa.Column("id", sa.String(length=48), nullable=False),
        sa.Column("namespace", sa.String(length=64), nullable=False),
        sa.Column("created_at", sa.Float(), nullable=False),
        sa.Column("body", sa.Text(), nullable=False),
        sa.Column("status", sa.String(length=16), nullable=False),
        sa.Column("attempts", sa.Integer(), nullable=False),
        sa.Column("next_at", sa.Float(), nullable=False),
        sa.Column("error", sa.Text(), nullable=True),
        sa.PrimaryKeyConstraint("id"),
    )
    op.create_index("alerts_by_namespace", "alerts", ["namespace", "created_at"], unique=False)
