"""The exercises: a file per chapter of the book and per set of puzzles, each a `CHAPTER`.

Enters: nothing. Leaves: records of `exercise.py`, loaded one file at a time by `catalogue.py`. Refuses: nothing.
"""
