"""The pages of a fleet: one page of all nodes as a heat map with what they share, one page a metric.

The page of a single node is the dossier in ``pages``; what is found about many nodes comes from
``validator/surveying``; files are written by ``cli/site``. Open ``fleet_view.py`` first, then
``fleet_index.py``.

PYTEST_DONT_REWRITE
"""
