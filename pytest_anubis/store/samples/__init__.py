"""Samples in files: the columnar file of an import, Parquet for other tools, values that exceed the memory.

Gathering samples into populations is in ``core/gather.py``. Open ``columnar_files.py`` first.

PYTEST_DONT_REWRITE
"""
