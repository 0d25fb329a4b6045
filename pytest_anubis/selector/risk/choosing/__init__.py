"""Which risk model a history supports: backtests, measures of accuracy, the rule, and what a risk is off by.

The models themselves are in ``models``. Open ``model_choice.py`` first.

PYTEST_DONT_REWRITE
"""
