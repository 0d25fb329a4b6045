"""What the commands share that take runs from a history as well as from files.

The reading itself is in ``store/fleet``. Open ``stored_sources.py``.

PYTEST_DONT_REWRITE
"""
