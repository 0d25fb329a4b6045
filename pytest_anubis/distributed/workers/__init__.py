"""The controller and its workers: lanes, device binding, the channel between them, the adapter to xdist.

Who runs what is decided in ``dispatch``. Open ``controller.py`` first, then ``worker.py``.

PYTEST_DONT_REWRITE
"""
