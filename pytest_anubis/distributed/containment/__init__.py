"""Hangs, crashes and deaths, enforced and explained from outside the process that suffers them.

Which process that is, ``workers`` knows. Open ``watchdog.py`` first.

PYTEST_DONT_REWRITE
"""
