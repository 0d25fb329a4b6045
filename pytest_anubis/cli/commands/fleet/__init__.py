"""The actions of ``anubis fleet`` that run nothing: the status of a fleet, its drain list, and plans.

Running tests on hosts is in ``fleet_command.py``. Open ``fleet_reading.py`` first.
"""
