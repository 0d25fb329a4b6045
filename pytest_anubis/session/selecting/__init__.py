"""The Selector inside a run: its choice, made once, and leaving out what it does not want.

How a choice is made is in the room ``selector``. Open ``run_choice.py`` first.

PYTEST_DONT_REWRITE
"""
