"""Dynamo: programs captured from their bytecode.

Enters: a function as it is. Leaves: graphs for a backend, guards that say when they hold, and code that runs them.
`bytecode` reads and writes instructions, `record` keeps the graph being written, `values` says where objects come from
and what was relied upon, `frames` and `machine` execute, `rules` say what calls mean, `stored` keeps results for later
processes. On top, `capture` makes a graph of a function and `convert` decides when. PyTorch's names for it are in
`rushlight._dynamo`.
"""
