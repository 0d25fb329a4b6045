"""Samples of many runs as populations, and the columnar file that keeps a whole fleet of them.

Reading other tools' files is in ``importers``. Open ``gather.py`` first.

PYTEST_DONT_REWRITE
"""
