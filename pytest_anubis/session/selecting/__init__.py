"""The Selector inside a run: makes its choice once, and leaves tests out accordingly.

The room ``selector`` computes a choice. Open ``run_choice.py`` first.

PYTEST_DONT_REWRITE
"""
