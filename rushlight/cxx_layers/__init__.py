"""The C++ face of layers and optimizers: what rushlight.nn and rushlight.optim are in C++ programs.

Enters: signatures of Python's layers, functions and optimizers. Leaves: their declarations in C++ (records.py, text.py)
and what those call at run time (calls.py). Refuses nothing by itself; `cxx` builds what comes out.
"""
