"""Burn: everything under full load for long, and results verified.

PYTEST_DONT_REWRITE
"""
