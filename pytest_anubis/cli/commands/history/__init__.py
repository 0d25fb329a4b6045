"""The actions of ``anubis history`` on incidents, defects and nodes: each noun has its file.

What is shown of runs, and filing them, is in ``history_command.py``; open ``node_actions.py`` first.

PYTEST_DONT_REWRITE
"""
