"""Validation policies on simulated fleets whose nodes get hidden defects; for ``anubis simulate``.

No real run uses it. Open ``simulated_fleet.py`` first.

PYTEST_DONT_REWRITE
"""
