"""What moved while it was measured: abrupt changes, ramps, where steady state begins, trends over cycles.

Whether a change rejects a node is decided in ``judging``. Open ``segments.py`` first.

PYTEST_DONT_REWRITE
"""
