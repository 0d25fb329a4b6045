"""Collectives: ranks that reduce together, alone and while they compute.

PYTEST_DONT_REWRITE
"""
