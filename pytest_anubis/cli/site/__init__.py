"""The view of a judged fleet: what is known of its nodes, as lines for the terminal and as pages.

How pages look is in ``report/fleet``. Open ``fleet_source.py`` first.

PYTEST_DONT_REWRITE
"""
