"""Migrations of the database, for Alembic."""
