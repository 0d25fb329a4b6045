"""Which model does a history deserve? Measures of accuracy, the backtest in time, and the choice from it.

The models themselves stand in ``models``, a fleet's nodes and incidents in the modules beside this shelf.
Open ``model_choice.py`` first.

PYTEST_DONT_REWRITE
"""
