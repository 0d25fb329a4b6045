"""Which risk model a history supports: backtests, measures of accuracy, the rule, and the error of a risk.

The models themselves are in ``models``. Open ``model_choice.py`` first.

PYTEST_DONT_REWRITE
"""
