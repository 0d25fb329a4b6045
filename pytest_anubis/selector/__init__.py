"""The Selector: how likely is an incident, and which benchmarks are worth their time?

It is deterministic and usable without pytest; it needs numpy and scipy, and torch only for Cox-Time. Open
``choice/choice_inputs.py`` first.

PYTEST_DONT_REWRITE
"""
