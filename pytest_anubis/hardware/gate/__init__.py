"""Check before any measurement whether a node has the hardware of its class: the inventory gate.

Changes during a measurement are watched by ``telemetry``. Open ``inventory_gate.py`` first.

PYTEST_DONT_REWRITE
"""
