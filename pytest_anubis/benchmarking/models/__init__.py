"""Model what exchanges between ranks cost.

Nothing here measures or judges: benchmarks plan by these models, and their figures inform.

PYTEST_DONT_REWRITE
"""
