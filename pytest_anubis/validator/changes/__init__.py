"""Changes while a node was measured: abrupt changes, ramps, the begin of steady state, trends over cycles.

Whether a change rejects a node is decided in ``judging``. Open ``segments.py`` first.

PYTEST_DONT_REWRITE
"""
