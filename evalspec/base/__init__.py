"""Foundations: errors with a place and a fix, the registry, permissions, files, JSON, text."""
