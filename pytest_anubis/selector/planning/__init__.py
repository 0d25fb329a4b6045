"""Plan what a whole fleet validates in one window: one choice over all nodes, with the resources they share.

The risk of a node is in ``risk``, the choice for one run in ``choice``. Open ``window_plan.py`` first, then
``window_solver.py`` for the mathematics.

PYTEST_DONT_REWRITE
"""
