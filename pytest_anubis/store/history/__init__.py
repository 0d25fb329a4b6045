"""The database of all nodes: runs, verdicts, incidents, defects, and the file of a fitted risk model.

Samples in full stay in journals and imports. Open ``tables.py`` for the schema, ``database.py`` for its use,
``bounded_use.py`` for the border that every caller stays behind.

PYTEST_DONT_REWRITE
"""
