"""Distribution over processes: who runs what when, and what happens when a process hangs or dies.

PYTEST_DONT_REWRITE
"""
