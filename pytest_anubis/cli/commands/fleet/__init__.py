"""The actions of ``anubis fleet`` on a fleet's history: its status, its drain list and plans.

Running tests on hosts is in ``fleet_command.py``. Open ``fleet_reading.py`` first.
"""
