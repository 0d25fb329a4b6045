"""Network: what the host's own TCP stack delivers.

PYTEST_DONT_REWRITE
"""
