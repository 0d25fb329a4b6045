"""Who runs what when: tasks, the pure dispatcher, the predicted plan, certificates, the adapter to xdist.

Processes are in ``workers``, their deaths in ``containment``. Open ``dispatcher.py`` first.

PYTEST_DONT_REWRITE
"""
