"""Decides which worker runs which test when: tasks, dispatcher, predicted plan, certificates.

Processes are in ``workers``, their deaths in ``containment``. Open ``dispatcher.py`` first.

PYTEST_DONT_REWRITE
"""
