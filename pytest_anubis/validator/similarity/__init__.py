"""How alike are samples, and what is the middle of many? Distances, centres, pooling and the fast row layout.

Nothing here knows a limit or a verdict. Open ``distance.py`` first: its formula is what all else rests on.

PYTEST_DONT_REWRITE
"""
