"""The pages of a fleet: one page of all nodes as a heat map with what they share, one page a metric.

The page of a single node is the dossier in ``pages``, ``validator/surveying`` finds what many nodes share,
``cli/site`` writes the files. Open ``fleet_view.py`` first, then ``fleet_index.py``.

PYTEST_DONT_REWRITE
"""
