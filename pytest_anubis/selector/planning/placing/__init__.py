"""Scheduling within a window: lanes, pools with calendars, and when each node runs what was chosen for it.

What a node runs is chosen in ``window_solver.py``. Open ``window_schedule.py`` first.

PYTEST_DONT_REWRITE
"""
