"""The command ``anubis``: one module a command, each with ``add`` (its options) and ``run``.

PYTEST_DONT_REWRITE
"""
