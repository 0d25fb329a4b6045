"""The full contents of runs in the history: journals and imported samples, compressed, and a run's own rows.

Reading them back as runs is in ``store/fleet``. Open ``content_rows.py`` first.

PYTEST_DONT_REWRITE
"""
