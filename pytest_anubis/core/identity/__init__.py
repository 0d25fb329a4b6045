"""The identity of machines and devices, independent of their names.

The name of a node is in `hardware.inventory.node_name`. Open `machine_marks.py`.
"""
