"""The actions of ``anubis history`` on incidents, defects, nodes and the database: each noun has its file.

Showing runs is in ``history_command.py``; open ``node_actions.py`` first.

PYTEST_DONT_REWRITE
"""
