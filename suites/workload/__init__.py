"""End to end, with the networks that users run: training and inference steps, alone and data-parallel.

Here are the tests, what drives a network (`running`, `serving`, `trajectory`, `data_parallel`) and the one
table of what runs where (`catalogue`, open it first). The networks themselves are in `models/`.

PYTEST_DONT_REWRITE
"""
