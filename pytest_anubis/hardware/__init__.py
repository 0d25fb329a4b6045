"""The only room that knows vendor libraries, devices, /proc and sysfs.

PYTEST_DONT_REWRITE
"""
