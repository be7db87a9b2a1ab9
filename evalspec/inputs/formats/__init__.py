"""Formats of other systems: a module or a folder each, which nothing imports. `datasets.base.DATASETS` finds them."""
