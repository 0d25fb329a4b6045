"""Links: the ways between the host and its accelerators, and from one accelerator to another.

PYTEST_DONT_REWRITE
"""
