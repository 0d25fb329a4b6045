"""The columnar file that keeps the samples of a whole fleet.

Gathering samples into populations is in ``core/gather.py``. Open ``columnar_files.py``.

PYTEST_DONT_REWRITE
"""
