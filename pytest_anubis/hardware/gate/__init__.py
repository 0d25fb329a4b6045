"""Is the hardware there that should be? The inventory against the golden one, before anything is measured.

What changes during a measurement is watched by ``telemetry``. Open ``inventory_gate.py`` first.

PYTEST_DONT_REWRITE
"""
