"""The risk of a node: survival rows, survival models, which of them to use, and what drives its risk.

Which benchmarks to run at a risk is decided in ``choice``. Open ``forecast.py`` first.

PYTEST_DONT_REWRITE
"""
