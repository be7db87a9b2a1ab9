"""People and their roles."""

import sqlalchemy as sa
from alembic import op

revision = "0005"
down_revision = "0004"


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
