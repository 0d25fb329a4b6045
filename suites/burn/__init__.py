"""Burn: everything under full load for long, and every result verified.

PYTEST_DONT_REWRITE
"""
