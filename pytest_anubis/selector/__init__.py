"""The Selector: how likely is an incident, and which benchmarks are worth their time?

Pure: deterministic, numpy and scipy only (the network of Cox-Time loads torch when it is first used);
usable without pytest. Open ``choice/choice_inputs.py`` first.

PYTEST_DONT_REWRITE
"""
