"""Many nodes in one go.

One node's run is `session`, what outlives it `store`. Open `launching` first.
"""
