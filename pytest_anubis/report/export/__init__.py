"""Verdicts for other programs: JUnit properties, Prometheus gauges, JSON.

What people read is in ``text`` and ``pages``. Each module stands alone.

PYTEST_DONT_REWRITE
"""
