"""Verdicts for other programs: JUnit properties, Prometheus gauges, JSON, OCP Test & Validation.

Texts for people are in ``text`` and ``pages``. Open ``run_json.py`` first; ``ocp_export.py`` alone needs
others, ``ocp_steps.py`` and ``ocp_hardware.py``.

PYTEST_DONT_REWRITE
"""
