"""What outlives a process: journals, baselines, the history database, and imported results.

PYTEST_DONT_REWRITE
"""
