"""Verdicts for other programs: JUnit properties, Prometheus gauges, JSON.

What people read is in ``text`` and ``pages``. Each module stands alone; open ``run_json.py`` first.

PYTEST_DONT_REWRITE
"""
