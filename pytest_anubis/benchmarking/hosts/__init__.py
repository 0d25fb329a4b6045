"""Several hosts: simulated ones in network namespaces, and one process on each that measures pairs.

Which pairs are measured when, and who is to blame, is in `pytest_anubis.fleet.links`. Open
`simulated_hosts.py` first.

PYTEST_DONT_REWRITE
"""
