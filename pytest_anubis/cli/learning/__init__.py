"""The rounds that ``anubis learn`` runs on this machine: how many, of what, and what is told meanwhile.

Learning itself is in ``validator/learning``. Open ``rounds.py`` first.
"""
