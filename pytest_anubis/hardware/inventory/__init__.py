"""What a node consists of: read from NVML, ROCm, /proc and sysfs, named as a class, kept as plain data.

Whether it is as it should be is asked in ``gate``. Open ``inventory_reading.py`` first.

PYTEST_DONT_REWRITE
"""
