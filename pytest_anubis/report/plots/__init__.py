"""Plots as inline SVG: distributions, values in time, fleets, one quantity against another.

`pages` and `fleet` place them. Open ``distribution_plots.py`` first.

PYTEST_DONT_REWRITE
"""
