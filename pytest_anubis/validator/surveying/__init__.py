"""Surveys of many nodes, beyond each node's verdict: traits that separate nodes, and drifts over time.

It decides about no node; a class that moved as a whole is in ``judging/population_shift.py``. Open
``unit_medians.py`` first, then ``trait_shifts.py``.

PYTEST_DONT_REWRITE
"""
