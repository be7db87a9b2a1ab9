"""Runs on many machines: the driver hands out attempts, nodes ask and score them, and Ray carries what is said.

Three processes speak one language (messages.py): the driver, which owns log, limits and verdict; the bridge, the only
one that imports Ray; and the nodes, which are actors of Ray.
"""
