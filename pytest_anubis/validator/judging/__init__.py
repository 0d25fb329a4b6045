"""From a sample and a criterion to a verdict: against the fleet, the other devices, the own history.

Nothing here learns a threshold or decides about a node. Open ``sample_judging.py`` first.

PYTEST_DONT_REWRITE
"""
