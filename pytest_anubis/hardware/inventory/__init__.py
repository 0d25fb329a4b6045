"""Read a node's inventory from NVML, ROCm, /proc and sysfs, and name its hardware class.

``gate`` checks the inventory. Open ``inventory_reading.py`` first.

PYTEST_DONT_REWRITE
"""
