"""What several commands share: options, errors, progress, finding runs and histories.

No command is here. Open ``arguments.py`` first.

PYTEST_DONT_REWRITE
"""
