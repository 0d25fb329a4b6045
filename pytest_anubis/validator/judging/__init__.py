"""From a sample and a criterion to a verdict, and from all verdicts of a node to the decision about it.

Nothing here learns a threshold. Open ``sample_judging.py`` for one metric, ``node_decision.py`` for
a whole node.

PYTEST_DONT_REWRITE
"""
