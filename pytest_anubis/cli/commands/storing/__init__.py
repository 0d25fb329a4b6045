"""The commands that bring runs into the store of a fleet, and out of it.

What is asked of a history is in ``history_command.py`` and its shelf. Open ``push_command.py`` first.

PYTEST_DONT_REWRITE
"""
