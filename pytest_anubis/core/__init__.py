"""The nouns that every room shares: plain, immutable values without behaviour of their own.

PYTEST_DONT_REWRITE
"""
