"""Limits from the losses of healthy units: who is healthy, how large their losses get, which losses show.

Nearly all of it works on plain arrays. Open ``healthy_null.py`` first.

PYTEST_DONT_REWRITE
"""
