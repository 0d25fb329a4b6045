"""The inventory gate: checks a node's hardware and software before a run, and the hardware again at its end.

Error counters and messages during a run are watched by ``telemetry``. Open ``inventory_gate.py`` first.

PYTEST_DONT_REWRITE
"""
