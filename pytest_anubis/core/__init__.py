"""Nouns that every room shares: plain, immutable values.

PYTEST_DONT_REWRITE
"""
