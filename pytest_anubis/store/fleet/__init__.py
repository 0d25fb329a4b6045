"""Push runs and imports from files into the history of a fleet, and read them back.

The tables are in ``store/history``; nothing is judged here. Open ``pushing.py`` first.

PYTEST_DONT_REWRITE
"""
