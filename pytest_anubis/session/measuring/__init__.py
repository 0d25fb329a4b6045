"""One test from its fixtures to its verdict: recording, repeating, judging in the call phase.

What the whole run concludes is in ``running``. Open ``recorder.py`` first, then ``call_phase.py``.

PYTEST_DONT_REWRITE
"""
