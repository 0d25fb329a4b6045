"""Policies of validation played over simulated fleets whose redundancies wear out unseen.

Nothing here is used by a real run. Open ``simulated_fleet.py`` first.

PYTEST_DONT_REWRITE
"""
