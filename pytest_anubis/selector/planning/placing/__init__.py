"""When and with what each node runs what it was chosen for: places among the nodes, pools with calendars.

Open ``window_schedule.py`` first; ``schedule_check.py`` says whether a schedule keeps to what there is.

PYTEST_DONT_REWRITE
"""
