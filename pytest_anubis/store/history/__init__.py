"""The database of all nodes (runs, verdicts, incidents, defects), and the small files next to it.

Samples have no rows: ``contents`` keeps journals and imports whole and compressed. Open ``tables.py`` for the
schema, ``database.py`` for its use, ``bounded_use.py`` for how callers use it within a time limit.

PYTEST_DONT_REWRITE
"""

HISTORY_NAME = "history.sqlite"
"""Name of a history's file in its folder."""
