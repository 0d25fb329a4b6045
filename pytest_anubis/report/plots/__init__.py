"""Plots as inline SVG: distributions, values in time, frontiers.

`pages` places them. Open ``distribution_plots.py`` first.

PYTEST_DONT_REWRITE
"""
