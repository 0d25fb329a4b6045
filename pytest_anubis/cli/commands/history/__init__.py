"""The actions of ``anubis history`` on nodes: registering them, and what became of them.

Incidents, defects and what is shown of runs stand in ``history_command.py``; open ``node_actions.py`` first.

PYTEST_DONT_REWRITE
"""
