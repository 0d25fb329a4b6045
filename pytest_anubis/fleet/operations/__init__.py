"""Running a fleet from day to day: where each node stands, and which are to be drained.

Nothing is measured, judged or done here; what a window should validate is thought out in `selector/planning`.
Open `node_places.py` first.
"""
