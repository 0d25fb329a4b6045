"""The networks, compact and our own, each with the size of the reference that it is named after.

A module has one function ``build`` that makes its network from the shape in `suites.workload.catalogue`.
Nothing here knows devices, element types or clocks. There is no dropout: a step draws no random number.

PYTEST_DONT_REWRITE
"""
