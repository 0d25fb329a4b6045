"""The benchmark set, by component: ordinary pytest tests that record what this machine delivers.

PYTEST_DONT_REWRITE
"""
