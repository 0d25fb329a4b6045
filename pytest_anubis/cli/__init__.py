"""The command ``anubis``: one module a command, each with ``add`` (its options) and ``run``.

Wherever something is wrong an error of this package is raised, mostly a `CommandError`: `main` prints it as
one line and ends with 2.

PYTEST_DONT_REWRITE
"""
