"""Nouns that every room shares, mostly immutable values, and what follows from them alone.

PYTEST_DONT_REWRITE
"""
