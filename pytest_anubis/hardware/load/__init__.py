"""Measure how others disturb this host (CPU time, steal, stalls, quotas, disks), and choose clear moments.

The accelerators' own sensors are in ``telemetry``. Open ``disturbance.py`` first.

PYTEST_DONT_REWRITE
"""
