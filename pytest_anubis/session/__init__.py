"""The thin pytest layer: fixtures, judging in the call phase, completeness, terminal.

PYTEST_DONT_REWRITE
"""
