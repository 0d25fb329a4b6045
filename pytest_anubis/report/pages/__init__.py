"""HTML pages and their blocks: the dossier of a run, what was learned, soaks, risk, simulations.

Markup is in ``report/templates``, plots come from ``plots``, words from ``text``. Open ``dossier.py`` first.

PYTEST_DONT_REWRITE
"""
