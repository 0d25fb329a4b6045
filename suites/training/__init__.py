"""End to end: one training step of small networks of the two most common kinds.

PYTEST_DONT_REWRITE
"""
