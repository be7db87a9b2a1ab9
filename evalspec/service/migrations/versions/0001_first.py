"""The tables of the first release.

A migration is never changed after its release. Until then it follows the tables.
"""

from alembic import op

from evalspec.service.tables import METADATA

revision = "0001"
down_revision = None


def upgrade() -> None:
    """Create all tables."""
    METADATA.create_all(op.get_bind())
