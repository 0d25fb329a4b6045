"""What happens while tests are collected: marks are checked, devices become parameters, the plan is reported.

Leaving tests out is in ``selecting``. Open ``benchmark_mark.py`` first.

PYTEST_DONT_REWRITE
"""
