"""Verdicts and numbers as lines of text, for the terminal and for what a failed test says.

No HTML is here. Open ``summary_text.py`` first; ``numbers.py`` rounds every number that is shown.

PYTEST_DONT_REWRITE
"""
