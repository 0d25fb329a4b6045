"""Links between nodes: which pairs are measured when, and which part is to blame for the slow ones.

`pytest_anubis.benchmarking.hosts.pair_group` runs the rounds. Open `pair_plans.py` first, then
`attribution.py`.

PYTEST_DONT_REWRITE
"""
