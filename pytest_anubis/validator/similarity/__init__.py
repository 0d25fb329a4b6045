"""Similarity of samples: distances, the centre of many samples, pooling, and the row layout for fast arrays.

Nothing here knows a threshold or a verdict. Open ``distance.py`` first: everything else uses its formula.

PYTEST_DONT_REWRITE
"""
