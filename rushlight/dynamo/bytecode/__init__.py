"""Bytecode: read into instructions, written by an emitter, and the code that goes on behind a break."""
