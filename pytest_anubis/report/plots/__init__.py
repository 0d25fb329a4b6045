"""Plots as inline SVG: distributions, values in time, frontiers.

Where a plot is on a page is decided in ``pages``. Open ``distribution_plots.py`` first.

PYTEST_DONT_REWRITE
"""
