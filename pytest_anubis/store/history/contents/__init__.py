"""The contents of runs in the history, in full: their journals, and samples that were imported, compressed.

What is asked for every day (verdicts, durations) has tables of its own beside it. Open ``content_rows.py``
first.

PYTEST_DONT_REWRITE
"""
