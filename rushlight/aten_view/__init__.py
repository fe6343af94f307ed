"""The view below autograd: calls of our ops as the calls of ATen's that PyTorch would make.

Enters: a call of one of our overloads that a mode or a tensor subclass of a program is to see.
Leaves: its result, after each ATen call it consists of was handed to the handlers.
Refuses: nothing. What ATen has no words for is shown as it is.
"""
