"""Memory: bandwidth, latency, and the way between host and device.

PYTEST_DONT_REWRITE
"""
