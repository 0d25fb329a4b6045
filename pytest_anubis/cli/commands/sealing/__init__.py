"""What ``anubis seal`` and ``anubis verify`` share: the decision from the files of a seal alone.

The archive and its signatures are in ``store/sealing/``. Open ``sealed_decision.py`` first.

PYTEST_DONT_REWRITE
"""
