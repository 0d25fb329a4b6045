"""What outlives a process: journals, baselines, the history database, imported results, seals and waivers.

PYTEST_DONT_REWRITE
"""
