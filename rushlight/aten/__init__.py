"""PyTorch's spelling of our ops: `ops.<namespace>.<name>.<overload>`, schemas, and calls as PyTorch records them.

Enters: op objects of the registry and calls of them. Leaves: overloads with PyTorch's names and signatures, which fx,
export and onnx write and read. Refuses overloads that PyTorch has not.
"""
