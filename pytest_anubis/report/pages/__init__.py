"""HTML pages and their pieces: the dossier of a run, what was learned, soaks, risk, simulations.

Plots come from ``plots``, numbers from ``text``. Open ``dossier.py`` first.

PYTEST_DONT_REWRITE
"""
