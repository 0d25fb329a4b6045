"""The questions of a run and their answers (`open_questions.py`, open it first), and next steps.

`next_step.py` says what to do about a bad verdict, and writes commands. Terminal, pages, JSON and `anubis
goals` take counts of questions and steps from here.
"""
