"""Arithmetic: matrix products and the cost of handing work to the device.

PYTEST_DONT_REWRITE
"""
