"""Explains a loss of a duration by the parts of it that were measured, once it is judged.

It decides nothing; parts that several devices share are in ``surveying/shared_parts.py``. Open
``step_shares.py``.

PYTEST_DONT_REWRITE
"""
