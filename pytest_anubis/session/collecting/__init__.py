"""Collection: checks marks, turns devices into parameters and traces into tests, and reports the plan.

``selecting`` leaves tests out. Open ``benchmark_mark.py`` first.

PYTEST_DONT_REWRITE
"""
