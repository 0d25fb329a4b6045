"""Many nodes at once, and what only many nodes show.

`links` plans measurements between hosts and finds the part to blame; it is pure: no files, clocks, processes
or pytest. `launching` starts runs on many nodes and collects what they decided. `fleet_status.py` says what
state each node is in and which ones to drain. One node's run is in `session`, what outlives it in `store`.

PYTEST_DONT_REWRITE
"""
