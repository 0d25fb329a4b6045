"""Verdicts on samples: by the fleet, by the node's other devices, by the node's own history.

Nothing here learns a threshold or decides about a node. Open ``sample_judging.py`` first.

PYTEST_DONT_REWRITE
"""
