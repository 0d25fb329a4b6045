"""The rows of nodes by their names, which everything else in the history refers to by number.

Which machine is behind a name is in ``machines``. Open ``node_rows.py``.

PYTEST_DONT_REWRITE
"""
