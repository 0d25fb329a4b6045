"""Sensors and counters around measurements, in a thread of their own, and nodes recorded with them.

What others do to the host is in ``load``. Open ``telemetry_sampler.py`` first.

PYTEST_DONT_REWRITE
"""
