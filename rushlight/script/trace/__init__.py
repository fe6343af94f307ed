"""Traces: one run of a Python program, written down as a graph of the ops it called.

Enters: a function or a module, and example inputs. Leaves: graphs as the script compiler has them. Control flow of
Python is followed once and gone; sizes of tensors that go into ops are ops themselves.
"""
