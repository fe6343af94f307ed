"""Exercises that check themselves: `python -m rushlight learn`.

Enters: the id of an exercise and a file with an answer. Leaves: whether the answer is right and, where it is not, the
smallest input that shows it, in two sentences. Refuses: to run an answer in this process, or to believe what an
answer says of itself: a child computes, this process compares.
"""
