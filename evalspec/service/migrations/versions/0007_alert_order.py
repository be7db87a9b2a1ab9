"""The branch of each alert, so that the alerts of a branch are sent in their order."""

import sqlalchemy as sa
from alembic import op

revision = "0007"
down_revision = "0006"


def upgrade() -> None:
    """Add the column. Alerts from before have none, so they wait for no other."""
    op.add_column("alerts", sa.Column("branch", sa.String(length=32), nullable=True))
    op.create_index("alerts_by_branch", "alerts", ["branch", "status"], unique=False)
