"""The fixture ``anubis_pairs``: pairs of hosts, and which part is to blame for the slow ones.

Plans and attribution are in `pytest_anubis.fleet.links`, the hosts' processes in
`pytest_anubis.benchmarking.hosts`. Open `pair_fixtures.py`.

PYTEST_DONT_REWRITE
"""
