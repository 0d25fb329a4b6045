"""From the losses of healthy units to limits: who is healthy, how far they reach, what shows.

Arrays only: nothing here knows populations, criteria or nodes. Open ``healthy_null.py`` first.

PYTEST_DONT_REWRITE
"""
