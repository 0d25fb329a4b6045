"""Surveys beyond verdicts: traits that separate nodes, drifts, parts that devices share, validation itself.

It decides about no node; a class that moved as a whole is in ``judging/population_shift.py``. Open
``unit_medians.py`` first, then ``trait_shifts.py``; ``step_shares.py`` explains a loss by its measured parts.

PYTEST_DONT_REWRITE
"""
