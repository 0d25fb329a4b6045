"""When and with what each node runs what it was chosen for: places among the nodes, pools with calendars.

Open ``window_schedule.py`` first.

PYTEST_DONT_REWRITE
"""
