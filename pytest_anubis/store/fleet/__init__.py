"""Between files and the history of a fleet: runs and imports are pushed into it, and read back out of it.

The tables are in ``store/history``; nothing is judged here. Open ``pushing.py`` first.

PYTEST_DONT_REWRITE
"""
