"""How verdicts count next to the failures that somebody answers for, and where the machine was let be noisy.

The file that they are read from is `store.waiver_files`, what is told about them `validator.deciding`. Open
`waiving.py` first.
"""
