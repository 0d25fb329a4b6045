"""Verdicts for other programs: JUnit, Prometheus gauges, JSON, OCP Test & Validation, drain reasons.

Texts for people are in ``text`` and ``pages``. Open ``run_json.py`` first; ``ocp_export.py`` alone uses
other modules of this folder, ``ocp_steps.py`` and ``ocp_hardware.py``.

PYTEST_DONT_REWRITE
"""
