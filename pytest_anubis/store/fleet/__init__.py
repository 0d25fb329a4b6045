"""Push runs and imports into the history of a fleet, read them back, and find what decides a node's standing.

The tables are in ``store/history``; nothing is judged here. Open ``pushing.py`` first.

PYTEST_DONT_REWRITE
"""
