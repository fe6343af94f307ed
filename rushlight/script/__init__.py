"""TorchScript: a typed part of Python, compiled once, kept in a file, run without its source.

Types, the intermediate form and its text, the compiler from Python, passes, the executor and archives; `rushlight.jit`
is the public face.
"""
