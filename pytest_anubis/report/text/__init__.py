"""Verdicts and numbers as lines of text, for the terminal and for messages of failed tests.

No HTML is here. Open ``summary_text.py`` first; ``numbers.py`` rounds every number that is shown.

PYTEST_DONT_REWRITE
"""
