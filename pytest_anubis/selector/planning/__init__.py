"""What a whole fleet should validate in one window: one choice over all nodes, with what they share.

The risk of a node is `risk`, the choice for nodes that run the same `choice`. Open ``window_plan.py`` first,
then ``window_solver.py`` for the mathematics.

PYTEST_DONT_REWRITE
"""
