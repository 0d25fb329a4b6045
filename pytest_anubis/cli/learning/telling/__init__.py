"""What ``anubis learn`` says when it has learned: what is missing, what to type next, all of it for programs.

How it learns is in the modules of the parent folder. Open ``learned_json.py`` first.

PYTEST_DONT_REWRITE
"""
