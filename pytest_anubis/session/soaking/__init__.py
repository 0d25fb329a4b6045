"""Soaks: the benchmark set in cycles of processes until the time is over, and their reports.

A single cycle is an ordinary run. Open ``soak.py`` first.

PYTEST_DONT_REWRITE
"""
