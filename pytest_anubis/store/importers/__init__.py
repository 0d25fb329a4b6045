"""Results of other tools, turned into populations: tables, SuperBench, nccl-tests, fio.

PYTEST_DONT_REWRITE
"""
