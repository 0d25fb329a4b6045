"""Verdicts for other programs: JUnit properties, Prometheus gauges, JSON.

Texts for people are in ``text`` and ``pages``. No module needs another; open ``run_json.py`` first.

PYTEST_DONT_REWRITE
"""
