"""Hangs and crashes of workers, handled from outside the worker's process; and what tests leave behind in it.

The processes are started in ``workers``. Open ``watchdog.py`` first.

PYTEST_DONT_REWRITE
"""
