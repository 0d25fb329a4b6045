"""What was found about many nodes together: what the slow ones share, what drifts.

How it is found is in ``validator/surveying``, how it is shown in ``report/fleet``. Open ``fleet_survey.py``
first.

PYTEST_DONT_REWRITE
"""
