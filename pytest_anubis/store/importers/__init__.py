"""Results of other tools, turned into populations: tables, SuperBench, nccl-tests, nvbandwidth, fio, DCGM.

What is done with populations is in ``samples``. Open ``import_result.py`` first, then ``table.py``.

PYTEST_DONT_REWRITE
"""
