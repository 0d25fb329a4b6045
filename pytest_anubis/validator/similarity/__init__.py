"""Similarity of samples: distances, the centre of many samples, pooling, and the row layout for fast arrays.

Partly worse samples and values that are too good are found here as well; nothing here makes a verdict. Open
``distance.py`` first: everything else uses its formula.

PYTEST_DONT_REWRITE
"""
