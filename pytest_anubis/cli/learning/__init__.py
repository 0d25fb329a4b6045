"""``anubis learn``: how many rounds of which tests to run here, and what to say of what was learned.

Learning itself is in ``validator/learning``. Open ``rounds.py`` first.
"""
