"""Traffic: the patterns of whole trainings between ranks, which single collectives hide.

PYTEST_DONT_REWRITE
"""
