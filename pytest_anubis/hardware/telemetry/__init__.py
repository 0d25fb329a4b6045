"""Read sensors around measurements, watch error counters and kernel log during a run, replay recorded nodes.

Disturbances of the host are in ``load``. Open ``telemetry_sampler.py`` first.

PYTEST_DONT_REWRITE
"""
