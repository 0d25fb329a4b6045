"""What keeps a history in order over years: who may do what, and what is thrown away when.

Nothing here files or judges a run. Open ``roles.py`` first.

PYTEST_DONT_REWRITE
"""
