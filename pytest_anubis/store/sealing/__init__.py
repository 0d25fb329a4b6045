"""The archive of a sealed run: its bytes, its manifest, and the signatures in it.

Deciding about the sealed run is in ``cli/commands/sealing/``. Open ``acceptance_bundle.py`` first.

PYTEST_DONT_REWRITE
"""
