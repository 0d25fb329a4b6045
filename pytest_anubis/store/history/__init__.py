"""The database of all nodes: runs, verdicts, incidents, defects, and the file of a fitted risk model.

Full samples stay in journals and imports. Open ``tables.py`` for the schema, ``database.py`` for its use,
``bounded_use.py`` for how callers use it within a time limit.

PYTEST_DONT_REWRITE
"""

HISTORY_NAME = "history.sqlite"
"""Name of a history's file in its folder."""
