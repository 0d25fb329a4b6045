"""Mutated inputs: every reader of the project is fed with files that were damaged or made up.

Open ``readers.py`` for what is read and what must hold, ``mutations.py`` for what is done to the files.
"""
