"""Many nodes at once: what only a fleet shows. Pure: no files, clocks, processes or pytest.

PYTEST_DONT_REWRITE
"""
