"""Commands that are needed once, before the first run.

What is typed every day stands one folder up; each module here has ``add`` and ``run`` as those have.

PYTEST_DONT_REWRITE
"""
