"""The append-only record of one run: writing it, the form of its events, reading it back.

The meaning of events is in ``core/events.py`` and ``core/run_state.py``. Open ``journal_file.py`` first.

PYTEST_DONT_REWRITE
"""
