"""Import results of other tools as populations: tables, SuperBench, nccl-tests, nvbandwidth, fio, DCGM.

Storing populations is in ``samples``. Open ``import_result.py`` first, then ``table.py``.

PYTEST_DONT_REWRITE
"""
