"""Decisions from verdicts: about a run, about a node, about a fleet of collected runs.

How one sample is judged is in ``judging``. Open ``node_decision.py`` first, then ``run_decision.py``.

PYTEST_DONT_REWRITE
"""
