"""Read sensors and counters around measurements, in a separate thread, and replay recorded nodes.

Disturbances of the host are in ``load``. Open ``telemetry_sampler.py`` first.

PYTEST_DONT_REWRITE
"""
