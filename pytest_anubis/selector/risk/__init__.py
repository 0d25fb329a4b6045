"""How likely is a node to have an incident soon? Its status, the survival models, and how good they are.

Which benchmarks follow from a risk is decided in ``choice``. Open ``forecast.py`` first.

PYTEST_DONT_REWRITE
"""
