"""Memory: bandwidth and latency.

PYTEST_DONT_REWRITE
"""
