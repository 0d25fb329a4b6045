"""The survival models: from covariates and uptime to the hazard of an incident, and to plain data and back.

``choosing`` decides which model a fleet's history supports. Open ``hazard.py`` first.

PYTEST_DONT_REWRITE
"""
