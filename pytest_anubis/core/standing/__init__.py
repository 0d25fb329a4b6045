"""Where a node stands after all its runs: the one answer that every command gives.

How runs are read is the store's matter, what is done about the answer the fleet's. Open `standing_of.py`
first.
"""
