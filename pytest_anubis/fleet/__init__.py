"""Many nodes in one go, and what only many show.

`links` plans measurements between hosts and finds what is to blame; it is pure: no files, clocks, processes
or pytest. `launching` starts many nodes and says what became of them. One node's run is `session`, what
outlives it `store`.

PYTEST_DONT_REWRITE
"""
