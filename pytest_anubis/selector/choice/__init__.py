"""Which benchmarks are worth their time at a given risk: coverage of defects, costs, and the best subset.

No survival model is here. Open ``benchmark_choice.py`` first, then ``cover_problem.py`` for the mathematics.

PYTEST_DONT_REWRITE
"""
