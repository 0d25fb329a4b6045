"""Findings about many nodes: traits of slow nodes, and metrics that drift.

`validator/surveying` finds them, `report/fleet` shows them. Open ``fleet_survey.py`` first.

PYTEST_DONT_REWRITE
"""
