"""Finished verdicts turned into text, HTML and files for other tools; decides nothing.

PYTEST_DONT_REWRITE
"""
