"""How verdicts count beside the failures that somebody answers for.

The file that they are read from is `store.waiver_files`, what is told about them `validator.deciding`. Open
`waiving.py` first.
"""
