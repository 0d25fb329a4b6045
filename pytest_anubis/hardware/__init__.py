"""Reading the hardware: the only package that uses vendor libraries, devices, /proc and sysfs.

PYTEST_DONT_REWRITE
"""
