"""Which machine a node's name belongs to in the history: its marks, and whoever else is called the same.

How marks are compared is `store/namesakes.py`, for collected runs too. Open ``machine_owners.py`` first.

PYTEST_DONT_REWRITE
"""
