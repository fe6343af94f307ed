"""The graph as PyTorch has it, for those who look at ours: names of nodes, next functions, saved values.

Enters: nodes of the tape, when Python first sees them. Leaves: what PyTorch has in their place. Nothing here is run by
the engine, and nothing is imported before somebody looks.
"""
