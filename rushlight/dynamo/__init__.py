"""Dynamo: programs captured from their bytecode.

Enters: a function as it is. Leaves: graphs for a backend, guards that say when they hold, and code that runs them.
`instructions` reads and writes bytecode, `sources` and `guards` say where values come from and what was relied upon,
`emitter` writes code; the rest is built on these. PyTorch's names for all of it are in `rushlight._dynamo`.
"""
