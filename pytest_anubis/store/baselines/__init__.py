"""Baseline files: their form, found by hardware class, sealed with a digest, written atomically.

How a baseline is learned is in ``validator/learning``. Open ``baseline_files.py`` first.

PYTEST_DONT_REWRITE
"""
