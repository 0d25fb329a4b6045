"""From a population of healthy units to criteria: who belongs to it, its centre, its tails, the thresholds.

Nothing here judges a node. Open ``baseline_learning.py`` first: it calls the others in order.

PYTEST_DONT_REWRITE
"""
