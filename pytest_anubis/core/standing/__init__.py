"""A node's standing: the decision that follows from all its runs, the same in every command.

``store`` reads the runs, ``fleet`` acts on the decision. Open `standing_of.py` first.
"""
