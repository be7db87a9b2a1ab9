"""Run the migrations on the connection of `database.migrate`."""

from alembic import context

from evalspec.service.tables import METADATA

context.configure(connection=context.config.attributes["connection"], target_metadata=METADATA)
context.run_migrations()
