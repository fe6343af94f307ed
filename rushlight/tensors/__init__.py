"""What tensors can do that is no op: methods, indexing, printing, exchange with other libraries.

Enters: tensors, indices, and data of other libraries. Leaves: calls of ops, text, and views of the same memory.
Refuses: indices and data that have no meaning as a tensor.
"""
