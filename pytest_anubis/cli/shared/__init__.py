"""What several commands share: options, errors, printing, finding runs and histories, judging many runs.

No command is here. Open ``arguments.py`` first.

PYTEST_DONT_REWRITE
"""
