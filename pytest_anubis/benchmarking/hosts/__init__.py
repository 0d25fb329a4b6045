"""Measure between several hosts, simulated or launched, with one process on each.

`pytest_anubis.fleet.links` plans the pairs and attributes slow ones. Open `simulated_hosts.py` first.

PYTEST_DONT_REWRITE
"""
