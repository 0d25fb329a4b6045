"""The survival models: from covariates and time to the hazard of an incident, and their plain data.

Which of them a fleet's history deserves is chosen in ``choosing``. Open ``hazard.py`` first.

PYTEST_DONT_REWRITE
"""
