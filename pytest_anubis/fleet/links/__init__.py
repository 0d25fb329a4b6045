"""Links between nodes: which pairs are measured when, and which part is to blame for the slow ones.

What runs the rounds is elsewhere (`pytest_anubis.benchmarking.pair_group`). Open `pair_plans.py` first, then
`attribution.py`.

PYTEST_DONT_REWRITE
"""
