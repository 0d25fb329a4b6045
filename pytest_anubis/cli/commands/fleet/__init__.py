"""Commands of whoever operates many nodes: is a node fit, launch them all, what came of it.

PYTEST_DONT_REWRITE
"""
