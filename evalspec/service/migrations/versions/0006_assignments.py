"""Assignments: who is asked to label which replies."""

import sqlalchemy as sa
from alembic import op

revision = "0006"
down_revision = "0005"


def upgrade() -> None:
    """Create the table."""
    op.create_table(
        "assignments",
        sa.Column("id", sa.String(length=48), nullable=False),
        sa.Column("namespace", sa.String(length=64), nullable=False),
        sa.Column("run_id", sa.Text(), nullable=False),
        sa.Column("queue", sa.JSON(), nullable=False),
        sa.Column("people", sa.JSON(), nullable=False),
        sa.Column("each", sa.Integer(), nullable=True),
        sa.Column("user", sa.Text(), nullable=False),
        sa.Column("created_at", sa.Float(), nullable=False),
        sa.PrimaryKeyConstraint("id"),
    )
    op.create_index("assignments_by_namespace", "assignments", ["namespace", "created_at"], unique=False)
