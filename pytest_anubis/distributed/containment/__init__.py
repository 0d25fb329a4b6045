"""Hangs and crashes of workers, handled and explained from outside the worker's process.

The processes are started in ``workers``. Open ``watchdog.py`` first.

PYTEST_DONT_REWRITE
"""
