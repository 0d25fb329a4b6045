"""Read a node's inventory from NVML, ROCm, /proc and sysfs; name the node, its class and visible cards.

``gate`` checks the inventory. Open ``inventory_reading.py`` first.

PYTEST_DONT_REWRITE
"""
