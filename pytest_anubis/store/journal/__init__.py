"""The append-only record of one run: writing it, the form of its events, reading it back.

What the events of a run mean is said in ``core/run.py``. Open ``journal_file.py`` first.

PYTEST_DONT_REWRITE
"""
