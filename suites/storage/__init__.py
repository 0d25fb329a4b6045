"""Storage: what the local disk delivers.

PYTEST_DONT_REWRITE
"""
