"""People, their roles, and the queues that are assigned to them."""

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"


def upgrade() -> None:
    """Create the tables, and the column of tokens that names the person whose roles limit them."""
    op.add_column("tokens", sa.Column("granted_by", sa.Text(), nullable=True))
    op.create_table(
        "people",
        sa.Column("user", sa.String(length=300), nullable=False),
        sa.Column("first_seen", sa.Float(), nullable=True),
        sa.Column("last_seen", sa.Float(), nullable=True),
        sa.Column("disabled_at", sa.Float(), nullable=True),
        sa.PrimaryKeyConstraint("user"),
    )
    op.create_table(
        "roles",
        sa.Column("user", sa.String(length=300), nullable=False),
        sa.Column("namespace", sa.String(length=64), nullable=False),
        sa.Column("role", sa.String(length=16), nullable=False),
        sa.PrimaryKeyConstraint("user", "namespace"),
    )
    op.create_table(
        "queues",
        sa.Column("id", sa.String(length=32), nullable=False),
        sa.Column("namespace", sa.String(length=64), nullable=False),
        sa.Column("run_id", sa.Text(), nullable=False),
        sa.Column("user", sa.Text(), nullable=False),
        sa.Column("filters", sa.JSON(), nullable=False),
        sa.Column("assigned_by", sa.Text(), nullable=False),
        sa.Column("assigned_at", sa.Float(), nullable=False),
        sa.PrimaryKeyConstraint("id"),
    )
    op.create_index("queues_by_user", "queues", ["namespace", "user"], unique=False)
