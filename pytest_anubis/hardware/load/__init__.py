"""What others did to this host meanwhile: CPU time, steal, stalls, quotas, disk traffic.

The accelerators' own sensors are in ``telemetry``. Open ``disturbance.py`` first.

PYTEST_DONT_REWRITE
"""
