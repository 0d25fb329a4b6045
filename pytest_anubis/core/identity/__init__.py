"""Which machine it is, whatever it is called: what tells two of one name apart, and one of two names.

What a node is *called* is in `hardware.inventory.node_name`. Open `machine_marks.py`.
"""
