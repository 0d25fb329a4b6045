"""Measure how others disturb this host: CPU time, steal, stalls, quotas and disk traffic.

The accelerators' own sensors are in ``telemetry``. Open ``disturbance.py`` first.

PYTEST_DONT_REWRITE
"""
