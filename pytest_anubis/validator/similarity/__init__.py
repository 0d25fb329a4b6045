"""How alike are samples, and what is the middle of many? Distances, centres, pooling and the fast row layout.

Nothing here knows a threshold or a verdict. Open ``distance.py`` first: all else rests on its formula.

PYTEST_DONT_REWRITE
"""
