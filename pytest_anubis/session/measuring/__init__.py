"""One test from its fixtures to its verdict: recording, repeating, finding hidden failures, judging.

What the whole run concludes is in ``running``. Open ``recorder.py`` first, then ``call_phase.py``.

PYTEST_DONT_REWRITE
"""
