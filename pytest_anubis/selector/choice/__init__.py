"""Which benchmarks to run at a given risk: coverage of defects, costs, and the best subset.

No survival model is here. Open ``choice_inputs.py`` first, then ``cover_problem.py`` for the mathematics.

PYTEST_DONT_REWRITE
"""
