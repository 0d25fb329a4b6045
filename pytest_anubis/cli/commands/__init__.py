"""One module for each command of ``anubis``, with ``add`` (its options) and ``run`` (returns the exit code).

What several of them need is in ``cli/shared``. Open ``report_command.py`` as an example.

PYTEST_DONT_REWRITE
"""
